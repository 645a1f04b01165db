"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);

  // ---- numbers and small makers -------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  function make(parent, name, attributes = {}, text = null) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    parent.append(node);
    return node;
  }
  function percent(p) {
    const x = 100 * p;
    if (x > 0 && x < 0.1) return x.toPrecision(1) + "%";
    if (x > 99.9 && x < 100) return "100\u2212" + (100 - x).toPrecision(1) + "%";
    return x.toFixed(1) + "%";
  }
  const count = (n) => Math.round(n).toLocaleString("en");
  const px = (x) => x.toFixed(1);
  function clipped(name, length) {
    const letters = Array.from(name);
    return letters.length > length ? letters.slice(0, length - 1).join("") + "\u2026" : name;
  }

  // ---- axes: a probability to a place between 0 and 1 ---------------------------------

  const END = data.logit_end;
  // `at` stays on the axis; `free` may leave it, or be null where nothing is drawn.
  const scales = {
    linear: { at: (p) => p, free: (p) => p, across: (p) => p, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], edges: data.linear_edges },
    logit: {
      at: (p) => {
        const z = Math.log(p / (1 - p));
        return (Math.max(-END, Math.min(END, z)) + END) / (2 * END);
      },
      // Curves and bands run off the axis, as 0 and 1 do.
      free: (p) => (Math.max(-2 * END, Math.min(2 * END, Math.log(p / (1 - p)))) + END) / (2 * END),
      across: (p) => (Math.abs(Math.log(p / (1 - p))) > END + 0.01 ? null : scales.logit.at(p)),
      ticks: [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999],
      edges: data.logit_edges,
    },
  };

  // Stretches of a curve between its gaps, each a list of indices.
  function stretches(values) {
    const found = [];
    let open = null;
    values.forEach((value, i) => {
      if (value === null) open = null;
      else if (open) open.push(i);
      else found.push((open = [i]));
    });
    return found;
  }
  const line = (run, xs, ys) => run.map((i) => px(xs[i]) + "," + px(ys[i]));
  function drawCurve(svg, xs, ys, low, high, faint = () => false) {
    for (const run of low ? stretches(low) : []) {
      const points = line(run, xs, low).concat(line(run, xs, high).reverse());
      make(svg, "polygon", { class: "band", points: points.join(" ") });
    }
    for (const run of stretches(ys)) {
      // A single point is a stretch of no length, which round line ends make a dot.
      for (const part of pieces(run, faint)) {
        const points = line(part.length > 1 ? part : [part[0], part[0]], xs, ys);
        make(svg, "polyline", { class: faint(part[0]) ? "curve faint" : "curve", points: points.join(" ") });
      }
    }
  }
  // A run cut where a property changes; each piece reaches to the next.
  function pieces(run, property) {
    const found = [];
    for (const i of run) {
      const last = found[found.length - 1];
      if (last) last.push(i);
      if (!last || property(last[0]) !== property(i)) found.push([i]);
    }
    return found;
  }

  // ---- reading values: by pointer, touch and arrow keys -------------------------------

  function readable(svg, positions, show, hide) {
    let at = null;
    const go = (i) => { at = Math.max(0, Math.min(positions.length - 1, i)); show(at); };
    svg.setAttribute("tabindex", "0");
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      let best = 0;
      positions.forEach((p, i) => { if (Math.abs(p - x) < Math.abs(positions[best] - x)) best = i; });
      go(best);
    };
    svg.onpointermove = nearest;
    svg.onpointerdown = nearest;
    svg.onpointerleave = () => { if (document.activeElement !== svg) { at = null; hide(); } };
    svg.onblur = () => { at = null; hide(); };
    svg.onkeydown = (event) => {
      const last = positions.length - 1;
      const from = at === null ? -1 : at;
      const to = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: last,
                   PageUp: from + 10, PageDown: from - 10 }[event.key];
      if (to === undefined) { if (event.key === "Escape") hide(); return; }
      event.preventDefault();
      go(to);
    };
  }

  // ---- the reliability diagram --------------------------------------------------------

  // Drawn at the width there is, so that letters keep their size on a narrow screen.
  const LEFT = 58, RIGHT = 14, TOP = 12, BARS = 52, FEW_ROWS = 1000;
  const widthOf = (place) => Math.max(300, Math.min(520, Math.round(place.clientWidth) || 520));
  const heightOf = (W) => Math.min(W - LEFT - RIGHT, 380);

  function legend(svg, x, y, banded, faint, beyond) {
    const items = [["bin", "15 bins"], ["diagonal", "calibrated"]];
    if (beyond) items.splice(1, 0, ["beyond", "bin beyond the axis"]);
    if (faint) items.unshift(["curve faint", banded ? "few rows" : "estimate, few rows"]);
    if (banded || !faint) items.unshift(["curve", banded ? "estimate, 95% band" : "estimate"]);
    items.forEach(([kind, text], i) => {
      const at = y + 17 * i;
      if (kind === "bin") make(svg, "circle", { class: "bin", cx: x + 10, cy: at - 4, r: 4.5 });
      else if (kind === "beyond") triangle(svg, x + 10, at - 4, 4.5, 1);
      else {
        if (kind === "curve" && banded) make(svg, "rect", { class: "band", x, y: at - 10, width: 20, height: 12 });
        make(svg, "line", { class: kind, x1: x, x2: x + 20, y1: at - 4, y2: at - 4 });
      }
      make(svg, "text", { x: x + 27, y: at }, text);
    });
    return items.length;
  }
  // A bin beyond the end of the axis: it points there, down (1) or up (-1).
  function triangle(svg, x, y, r, way) {
    const corners = [[x - r, y - way * r], [x + r, y - way * r], [x, y + way * r]];
    return make(svg, "polygon", { class: "bin beyond", points: corners.map((c) => c.map(px).join(",")).join(" ") });
  }
  // Where rows are few: a curve without a band, if a band is known elsewhere or rows are few in all.
  function faintOf(diagram) {
    const banded = diagram.low.some((end) => end !== null);
    const few = banded || diagram.linear.reduce((sum, n) => sum + n, 0) < FEW_ROWS;
    return (i) => few && diagram.R[i] !== null && diagram.low[i] === null;
  }

  function drawReliability(diagram, scaleName) {
    const place = byId("reliability"), readout = byId("reliability-readout");
    const scale = scales[scaleName];
    const W = widthOf(place), across = W - LEFT - RIGHT, up = heightOf(W);
    const BARS_TOP = TOP + up + 26, H = BARS_TOP + BARS + 40;
    const x = (p) => LEFT + across * scale.at(p), y = (p) => TOP + up * (1 - scale.at(p));
    place.replaceChildren();
    readout.textContent = "";
    const svg = make(place, "svg", { viewBox: `0 0 ${W} ${H}`, role: "application" });
    svg.setAttribute("aria-label",
      `Reliability diagram of ${diagram.name}: observed frequency against predicted probability. ` +
      "Use the arrow keys to read values.");
    for (const tick of scale.ticks) {
      make(svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick) });
      make(svg, "line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: TOP + up });
      make(svg, "text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, String(tick));
      make(svg, "text", { x: x(tick), y: BARS_TOP + BARS + 16, "text-anchor": "middle" }, String(tick));
    }
    make(svg, "text", { class: "title", x: 14, y: TOP + up / 2, "text-anchor": "middle",
      transform: `rotate(-90 14 ${TOP + up / 2})` }, "observed frequency");
    make(svg, "line", { class: "diagonal", x1: LEFT, y1: TOP + up, x2: W - RIGHT, y2: TOP });
    const side = diagram.tab === "confidence" ? ["under-confident", "over-confident"] : ["too low", "too high"];
    make(svg, "text", { class: "side", x: W - RIGHT - 10, y: TOP + up - 12, "text-anchor": "end" }, side[1]);
    const banded = diagram.low.some((end) => end !== null);
    const faint = faintOf(diagram);
    const dotted = diagram.R.some((_, i) => faint(i));
    const [predicted, observed, sizes] = diagram.bins, largest = Math.max(...sizes, 1);
    // 0 and 1 are beyond the ends of a logit axis.
    const way = (p) => { const z = scale.free(p); return z < 0 ? 1 : z > 1 ? -1 : 0; };
    const ways = observed.map(way);
    const n_items = legend(svg, LEFT + 10, TOP + 18, banded, dotted,
      ways.some((each) => each));
    make(svg, "text", { class: "side", x: LEFT + 10, y: TOP + 27 + 17 * n_items }, side[0]);

    sizes.forEach((n, b) => {
      const r = 2.5 + 6.5 * Math.sqrt(n / largest), at = x(predicted[b]);
      const edge = ways[b] === 1 ? TOP + up - r - 1 : TOP + r + 1;
      const dot = ways[b] ? triangle(svg, at, edge, r, ways[b])
        : make(svg, "circle", { class: "bin", cx: px(at), cy: px(y(observed[b])), r: px(r) });
      make(dot, "title", {}, `bin: ${count(n)} predictions, mean ${percent(predicted[b])}, ` +
        `observed ${percent(observed[b])}`);
    });
    const xs = data.grid.map(x), ys = diagram.R.map((r) => (r === null ? null : y(r)));
    // The curve where it is on the axes: it is cut where it leaves them.
    const shown = data.grid.map((p) => scale.across(p) !== null);
    const place_ = (r, i) => (r === null || !shown[i] ? null : TOP + up * (1 - scale.free(r)));
    const clip = make(make(svg, "clipPath", { id: "inside" }), "rect",
      { x: LEFT - 3, y: TOP - 2, width: across + 6, height: up + 4 });
    const inside = make(svg, "g", { "clip-path": `url(#${clip.parentNode.id})` });
    drawCurve(inside, xs, diagram.R.map(place_), diagram.low.map(place_), diagram.high.map(place_), faint);

    const counts = diagram[scaleName], edges = scale.edges, most = Math.max(...counts, 1);
    const bars = counts.map((n, b) => {
      const left = x(edges[b]), width = x(edges[b + 1]) - left;
      const height = n > 0 ? Math.max((BARS * n) / most, 1) : 0;
      return make(svg, "rect", { class: "bar", x: px(left + 0.5), width: px(Math.max(width - 1, 0.5)),
        y: px(BARS_TOP + BARS - height), height: px(height) });
    });
    make(svg, "line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: BARS_TOP + BARS, y2: BARS_TOP + BARS });
    make(svg, "text", { x: LEFT - 8, y: BARS_TOP + 9, "text-anchor": "end" }, short(most));
    make(svg, "text", { x: LEFT - 8, y: BARS_TOP + BARS + 4, "text-anchor": "end" }, "0");
    make(svg, "text", { class: "title", x: LEFT + across / 2, y: H - 6, "text-anchor": "middle" },
      W < 420 ? "predicted probability" : `predicted probability of ${clipped(diagram.name, 32)}`);

    const cursor = make(svg, "g", { visibility: "hidden" });
    const vertical = make(cursor, "line", { class: "cross", y1: TOP, y2: BARS_TOP + BARS });
    const dot = make(cursor, "circle", { class: "dot", r: 5 });
    readable(svg, xs, (i) => {
      const p = data.grid[i], r = diagram.R[i];
      const bin = Math.min(counts.length - 1, edges.findIndex((e, b) => p < edges[b + 1] || b === counts.length - 1));
      bars.forEach((bar, b) => bar.classList.toggle("on", b === bin));
      cursor.setAttribute("visibility", "visible");
      vertical.setAttribute("x1", xs[i]);
      vertical.setAttribute("x2", xs[i]);
      dot.setAttribute("visibility", r === null || way(r) ? "hidden" : "inherit");
      if (r !== null) { dot.setAttribute("cx", xs[i]); dot.setAttribute("cy", ys[i]); }
      const there = `${count(counts[bin])} predictions from ${percent(edges[bin])} to ${percent(edges[bin + 1])}`;
      readout.textContent = r === null
        ? `Predicted ${percent(p)}: no predictions near. ${there}.`
        : `Predicted ${percent(p)}: observed ${percent(r)} ` + (diagram.low[i] === null
          ? "(too few rows for a band). "
          : `(band ${percent(diagram.low[i])} to ${percent(diagram.high[i])}). `) + `${there}.`;
    }, () => {
      cursor.setAttribute("visibility", "hidden");
      bars.forEach((bar) => bar.classList.remove("on"));
      readout.textContent = "";
    });
  }
  function short(n) {
    if (n >= 1e6) return (n / 1e6).toPrecision(2) + "M";
    return n >= 1e4 ? Math.round(n / 1e3) + "k" : count(n);
  }

  // ---- saving -------------------------------------------------------------------------

  function download(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  // A copy of the chart that carries its own colours, so that it looks alike anywhere.
  function standalone() {
    const chart = document.querySelector("#reliability svg"), copy = chart.cloneNode(true);
    const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity",
                  "font-size", "font-family", "font-weight"];
    const originals = chart.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((node, i) => {
      const style = getComputedStyle(originals[i]);
      for (const name of kept) node.setAttribute(name, style.getPropertyValue(name));
      node.removeAttribute("class");
    });
    const { width, height } = chart.viewBox.baseVal;
    copy.setAttribute("xmlns", SVG);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    for (const name of ["tabindex", "role"]) copy.removeAttribute(name);
    const paper = document.createElementNS(SVG, "rect");
    paper.setAttribute("width", width);
    paper.setAttribute("height", height);
    paper.setAttribute("fill", getComputedStyle(document.documentElement).backgroundColor);
    copy.prepend(paper);
    return new XMLSerializer().serializeToString(copy);
  }
  const save = {
    svg: () => download("reliability.svg", new Blob([standalone()], { type: "image/svg+xml" })),
    json: () => download("report.json",
      new Blob([JSON.stringify(data.report, null, 2) + "\n"], { type: "application/json" })),
    png: () => {
      const image = new Image(), text = standalone();
      image.onload = () => {
        const canvas = document.createElement("canvas"), zoom = 2;
        canvas.width = image.width * zoom;
        canvas.height = image.height * zoom;
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => download("reliability.png", blob), "image/png");
      };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    },
  };

  // ---- the table of classes -----------------------------------------------------------

  function setUpTable(select) {
    const table = byId("class-table");
    if (!table) return () => {};
    const body = table.tBodies[0], rows = Array.from(body.rows);
    const drawn = new Map(data.diagrams.map((d, i) => [d.number, i]).filter(([n]) => n !== undefined));
    const numberOf = (row) => drawn.get(Number(row.dataset.number));
    const names = new Map(rows.map((row) => [row, row.cells[0].textContent]));
    rows.forEach((row) => {
      const place = numberOf(row);
      if (place === undefined) return;
      drawSpark(row.querySelector(".spark"), data.diagrams[place], row.hasAttribute("data-beyond"));
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = names.get(row);
      button.title = `Show class ${names.get(row)} in the diagram`;
      button.onclick = () => { select(place); byId("figure").scrollIntoView({ block: "nearest" }); };
      row.cells[0].replaceChildren(button);
    });

    const filter = byId("filter"), only = byId("only"), more = byId("more");
    let limit = Number(table.dataset.shown);
    function refresh() {
      const wanted = filter.value.trim().toLowerCase();
      const matching = Array.from(body.rows).filter((row) =>
        names.get(row).toLowerCase().includes(wanted) && (!only.checked || row.hasAttribute("data-beyond")));
      rows.forEach((row) => { row.hidden = true; });
      matching.slice(0, limit).forEach((row) => { row.hidden = false; });
      const shown = Math.min(limit, matching.length);
      byId("showing").textContent = `${count(shown)} of ${count(rows.length)} classes` +
        (matching.length < rows.length ? ` (${count(matching.length)} match)` : "");
      more.hidden = shown === matching.length;
    }
    filter.oninput = refresh;
    only.onchange = refresh;
    more.onclick = () => { limit = Infinity; refresh(); };
    byId("class-controls").hidden = false;
    window.addEventListener("beforeprint", () => { limit = Math.max(limit, 100); refresh(); });

    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      if (head.dataset.sort === undefined) return;
      const label = head.querySelector("span"), button = document.createElement("button");
      button.type = "button";
      button.textContent = label.textContent;
      button.onclick = () => {
        const byName = head.dataset.sort === "name";
        const first = byName ? "ascending" : "descending";
        const now = head.getAttribute("aria-sort");
        const order = now !== first ? first : byName ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const collator = new Intl.Collator("en", { numeric: true });
        const key = (row) => Number(row.cells[column].dataset.value);
        rows.slice().sort((a, b) => sign * (byName
          ? collator.compare(names.get(a), names.get(b)) : key(a) - key(b)))
          .forEach((row) => body.append(row));
        refresh();
      };
      label.replaceChildren(button);
    });
    heads[2].setAttribute("aria-sort", "descending");
    refresh();
    return (number) => rows.forEach((row) =>
      row.setAttribute("aria-current", String(numberOf(row) === number)));
  }
  // The curve of a class, filled towards the diagonal by the side on which it errs; without colour
  // where that may be chance.
  function drawSpark(cell, diagram, beyond) {
    const side = 34, y = (r) => side * (1 - r);
    const svg = make(cell, "svg", { viewBox: `-1 -1 ${side + 2} ${side + 2}`, "aria-hidden": "true" });
    make(svg, "rect", { class: "frame", x: 0, y: 0, width: side, height: side });
    const xs = data.grid.map((p) => side * p), ys = diagram.R.map((r) => (r === null ? null : y(r)));
    for (const run of stretches(ys)) {
      const pieces = [];
      run.forEach((i) => {
        const over = diagram.R[i] < data.grid[i];
        const last = pieces[pieces.length - 1];
        if (last && last.over === over) last.run.push(i);
        else pieces.push({ over, run: last ? [last.run[last.run.length - 1], i] : [i] });
      });
      pieces.forEach(({ over, run: part }) => {
        const back = part.slice().reverse().map((i) => px(xs[i]) + "," + px(y(data.grid[i])));
        make(svg, "polygon", { class: beyond ? (over ? "over" : "under") : "chance", points: line(part, xs, ys).concat(back).join(" ") });
      });
    }
    make(svg, "line", { class: "diagonal", x1: 0, y1: side, x2: side, y2: 0 });
    drawCurve(svg, xs, ys, null, null, faintOf(diagram));
  }

  // ---- all together -------------------------------------------------------------------

  const choose = byId("choose"), logit = byId("logit");
  const tabs = Array.from(document.querySelectorAll("[data-tab]"));
  const firstOf = (tab) => data.diagrams.findIndex((diagram) => diagram.tab === tab);
  let shown = -1, mark = () => {};
  function show(number) {
    shown = number;
    const diagram = data.diagrams[number];
    if (!diagram) return;
    tabs.forEach((tab) => tab.setAttribute("aria-selected", String(tab.dataset.tab === diagram.tab)));
    choose.hidden = diagram.tab !== "classes";
    choose.value = String(number);
    drawReliability(diagram, logit.checked ? "logit" : "linear");
    mark(number);
  }
  data.diagrams.forEach((diagram, number) => {
    if (diagram.tab !== "classes") return;
    const option = document.createElement("option");
    option.value = String(number);
    option.textContent = clipped(diagram.name, 60);
    choose.append(option);
  });
  tabs.forEach((tab) => { tab.onclick = () => show(firstOf(tab.dataset.tab)); });
  choose.onchange = () => show(Number(choose.value));
  logit.checked = data.logit_first;
  logit.onchange = () => show(shown);
  byId("controls").hidden = tabs.length === 0 && choose.options.length === 0;
  byId("below").hidden = data.diagrams.length === 0;
  document.querySelectorAll("[data-save]").forEach((button) => { button.onclick = save[button.dataset.save]; });
  const copy = byId("copy");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.onclick = async () => {
      await navigator.clipboard.writeText(byId("command").textContent);
      copy.textContent = "Copied";
    };
  }
  window.addEventListener("beforeprint", () => { byId("details").open = true; });
  mark = setUpTable(show);
  show(data.first);
  let drawn = widthOf(byId("reliability"));
  window.addEventListener("resize", () => {
    if (widthOf(byId("reliability")) === drawn) return;
    drawn = widthOf(byId("reliability"));
    show(shown);
  });
})();
