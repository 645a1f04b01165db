
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
  function probability(p) {
    if (p > 0 && p < 0.001) return p.toExponential(1);
    if (p > 0.999 && p < 1) return "1 \u2212 " + (1 - p).toExponential(1);
    return p.toFixed(3);
  }
  const count = (n) => n.toLocaleString("en");
  const px = (x) => x.toFixed(1);

  // ---- axes: a probability to a place between 0 and 1 ---------------------------------

  const END = data.logit_end;
  const scales = {
    linear: { at: (p) => p, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], edges: data.linear_edges },
    logit: {
      at: (p) => {
        const z = Math.log(p / (1 - p));
        return (Math.max(-END, Math.min(END, z)) + END) / (2 * END);
      },
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
  function drawCurve(svg, xs, ys, low, high) {
    for (const run of stretches(ys)) {
      if (low) {
        const there = run.map((i) => px(xs[i]) + "," + px(low[i]));
        const back = run.map((i) => px(xs[i]) + "," + px(high[i])).reverse();
        make(svg, "polygon", { class: "band", points: there.concat(back).join(" ") });
      }
    }
    for (const run of stretches(ys)) {
      // A single point is a stretch of no length, which round line ends make a dot.
      const points = (run.length > 1 ? run : [run[0], run[0]]).map((i) => px(xs[i]) + "," + px(ys[i]));
      make(svg, "polyline", { class: "curve", points: points.join(" ") });
    }
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
  const LEFT = 56, RIGHT = 16, TOP = 14, BARS = 84;
  const widthOf = (place) => Math.max(300, Math.min(640, Math.round(place.clientWidth) || 640));

  function drawReliability(diagram, scaleName) {
    const place = byId("reliability"), readout = byId("reliability-readout");
    const scale = scales[scaleName];
    const W = widthOf(place), SIDE = W - LEFT - RIGHT;
    const BARS_TOP = TOP + SIDE + 40, H = BARS_TOP + BARS + 34;
    const x = (p) => LEFT + SIDE * scale.at(p), y = (p) => TOP + SIDE * (1 - scale.at(p));
    place.replaceChildren();
    const invitation = "Hover over the diagram, or focus it and use the arrow keys, to read values.";
    readout.textContent = invitation;
    const svg = make(place, "svg", { viewBox: `0 0 ${W} ${H}`, role: "application" });
    svg.setAttribute("aria-label",
      `Reliability diagram of ${diagram.name}: frequency against predicted probability. ` +
      "Use the arrow keys to read values.");
    for (const tick of scale.ticks) {
      make(svg, "line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick) });
      make(svg, "line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: TOP + SIDE });
      make(svg, "text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, String(tick));
      make(svg, "text", { x: x(tick), y: TOP + SIDE + 20, "text-anchor": "middle" }, String(tick));
    }
    make(svg, "text", { class: "title", x: 15, y: TOP + SIDE / 2, "text-anchor": "middle",
      transform: `rotate(-90 15 ${TOP + SIDE / 2})` }, "frequency R");
    make(svg, "line", { class: "diagonal", x1: LEFT, y1: TOP + SIDE, x2: W - RIGHT, y2: TOP });

    const xs = data.grid.map(x);
    const ys = diagram.R.map((r) => (r === null ? null : y(r)));
    const low = diagram.low.map((r) => (r === null ? null : y(r)));
    const high = diagram.high.map((r) => (r === null ? null : y(r)));
    drawCurve(svg, xs, ys, low, high);

    const counts = diagram[scaleName], edges = scale.edges, most = Math.max(...counts, 1);
    const bars = counts.map((n, b) => {
      const left = x(edges[b]), width = x(edges[b + 1]) - left;
      const height = BARS * Math.sqrt(n / most);
      return make(svg, "rect", { class: "bar", x: px(left + 0.5), width: px(Math.max(width - 1, 0.5)),
        y: px(BARS_TOP + BARS - height), height: px(height) });
    });
    make(svg, "line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: BARS_TOP + BARS, y2: BARS_TOP + BARS });
    make(svg, "text", { x: LEFT - 8, y: BARS_TOP + 10, "text-anchor": "end" }, short(most));
    make(svg, "text", { x: LEFT - 8, y: BARS_TOP + BARS + 4, "text-anchor": "end" }, "0");
    make(svg, "text", { class: "title", x: LEFT + SIDE / 2, y: H - 12, "text-anchor": "middle" },
      W < 480 ? "predicted probability f" : `predicted probability f of ${clipped(diagram.name, 36)}`);

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
      dot.setAttribute("visibility", r === null ? "hidden" : "inherit");
      if (r !== null) { dot.setAttribute("cx", xs[i]); dot.setAttribute("cy", ys[i]); }
      const there = `${count(counts[bin])} predictions from ${probability(edges[bin])} to ${probability(edges[bin + 1])}`;
      readout.textContent = r === null
        ? `Predicted ${probability(p)}: no predictions near.\n${there}.`
        : `Predicted ${probability(p)}: comes true ${probability(r)}\n` +
          `(band ${probability(diagram.low[i])} to ${probability(diagram.high[i])}).\n${there}.`;
    }, () => {
      cursor.setAttribute("visibility", "hidden");
      bars.forEach((bar) => bar.classList.remove("on"));
      readout.textContent = invitation;
    });
  }
  function short(n) {
    if (n >= 1e6) return (n / 1e6).toPrecision(2) + "M";
    return n >= 1e4 ? Math.round(n / 1e3) + "k" : count(n);
  }
  function clipped(name, length) {
    const letters = Array.from(name);
    return letters.length > length ? letters.slice(0, length - 1).join("") + "\u2026" : name;
  }

  // ---- the bandwidth curve ------------------------------------------------------------

  function drawBandwidth(search) {
    const place = byId("bandwidth");
    if (!search) return;
    const readout = byId("bandwidth-readout"), W = widthOf(place);
    const width = W - LEFT - RIGHT, height = 190, h = TOP + height + 44;
    const [first, last] = [search.h[0], search.h[search.h.length - 1]].map(Math.log);
    const span = last - first || 1;
    const x = (v) => LEFT + (width * (Math.log(v) - first)) / span;
    const lowest = Math.min(...search.objective), range = Math.max(...search.objective) - lowest;
    const y = (v) => TOP + height - (height * (v - lowest)) / (range || 1) * 0.94 - 5;
    place.replaceChildren();
    readout.textContent = "";
    const svg = make(place, "svg", { viewBox: `0 0 ${W} ${h}`, role: "application" });
    svg.setAttribute("aria-label", "The criterion against the bandwidth. Use the arrow keys to read values.");
    for (let power = Math.ceil(first / Math.LN10 - 1e-9); power <= last / Math.LN10 + 1e-9; power++) {
      const at = x(10 ** power);
      make(svg, "line", { class: "grid", x1: at, x2: at, y1: TOP, y2: TOP + height });
      make(svg, "text", { x: at, y: TOP + height + 19, "text-anchor": "middle" }, String(10 ** power));
    }
    make(svg, "line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: TOP + height, y2: TOP + height });
    make(svg, "text", { class: "title", x: 15, y: TOP + height / 2, "text-anchor": "middle",
      transform: `rotate(-90 15 ${TOP + height / 2})` }, "criterion");
    make(svg, "text", { class: "title", x: LEFT + width / 2, y: h - 6, "text-anchor": "middle" },
      W < 480 ? "bandwidth h" : "bandwidth h (smaller: closer to the data; larger: smoother)");
    make(svg, "line", { class: "choice", x1: x(search.value), x2: x(search.value), y1: TOP, y2: TOP + height });
    const xs = search.h.map(x), ys = search.objective.map(y);
    drawCurve(svg, xs, ys, null, null);
    const chosen = search.h.reduce((best, v, i) =>
      Math.abs(Math.log(v / search.value)) < Math.abs(Math.log(search.h[best] / search.value)) ? i : best, 0);
    make(svg, "circle", { class: "dot", r: 5, cx: xs[chosen], cy: ys[chosen] });
    const cursor = make(svg, "circle", { class: "dot", r: 5, visibility: "hidden" });
    const summary = `Chosen${search.name ? " for " + clipped(search.name, 60) : ""}: ` +
      `h = ${Number(search.value.toPrecision(3))}` +
      (search.at_edge ? ", at the edge of its range." : ".");
    readout.textContent = summary;
    readable(svg, xs, (i) => {
      cursor.setAttribute("visibility", "visible");
      cursor.setAttribute("cx", xs[i]);
      cursor.setAttribute("cy", ys[i]);
      const above = search.objective[i] - lowest;
      readout.textContent = `h = ${Number(search.h[i].toPrecision(3))}: ` +
        (above > 0 ? `${above.toPrecision(3)} above the lowest.\n` : "the lowest.\n") + summary;
    }, () => {
      cursor.setAttribute("visibility", "hidden");
      readout.textContent = summary;
    });
  }

  // ---- risk = calibration error + refinement, as a bar --------------------------------

  function drawSplit() {
    const share = data.error_share, place = byId("split");
    if (share === null) return;
    place.hidden = false;
    const svg = make(place, "svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" });
    make(svg, "rect", { class: "rest", x: 0, y: 0, width: 1000, height: 10 });
    make(svg, "rect", { class: "error", x: 0, y: 0, width: Math.max(1000 * share, share > 0 ? 2 : 0), height: 10 });
    const line = document.createElement("p");
    line.textContent = `${(100 * share).toPrecision(2)}% of the risk is calibration error, which ` +
      "better probabilities for the same predictions would remove; the rest is refinement.";
    place.append(line);
  }

  // ---- the table of classes -----------------------------------------------------------

  function setUpTable(select) {
    const table = byId("class-table");
    if (!table) return () => {};
    const body = table.tBodies[0], rows = Array.from(body.rows);
    const numberOf = (row) => Number(row.dataset.number) + data.offset;
    rows.forEach((row) => {
      drawSpark(row.querySelector(".spark"), data.diagrams[numberOf(row)]);
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = row.cells[0].textContent;
      button.title = `Show ${button.textContent} in the diagram`;
      button.onclick = () => { select(numberOf(row)); byId("figure").scrollIntoView(); };
      row.cells[0].replaceChildren(button);
    });
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      if (head.dataset.sort === undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.dataset.name = head.textContent;
      button.onclick = () => {
        const names = head.dataset.sort === "name";
        const first = names ? "ascending" : "descending";
        const now = head.getAttribute("aria-sort");
        const order = now !== first ? first : names ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const key = (row) => row.cells[column].dataset.value;
        const collator = new Intl.Collator("en", { numeric: true });
        rows.slice().sort((a, b) => sign * (names
          ? collator.compare(a.cells[column].textContent, b.cells[column].textContent)
          : Number(key(a)) - Number(key(b)))).forEach((row) => body.append(row));
      };
      head.replaceChildren(button);
    });
    return (number) => rows.forEach((row) =>
      row.setAttribute("aria-current", String(numberOf(row) === number)));
  }
  function drawSpark(cell, diagram) {
    const side = 34, scale = scales.linear;
    const svg = make(cell, "svg", { viewBox: `-1 -1 ${side + 2} ${side + 2}`, "aria-hidden": "true" });
    make(svg, "rect", { class: "frame", x: 0, y: 0, width: side, height: side });
    make(svg, "line", { class: "diagonal", x1: 0, y1: side, x2: side, y2: 0 });
    const y = (r) => (r === null ? null : side * (1 - scale.at(r)));
    drawCurve(svg, data.grid.map((p) => side * scale.at(p)), diagram.R.map(y),
      diagram.low.map(y), diagram.high.map(y));
  }

  // ---- all together -------------------------------------------------------------------

  const choose = byId("choose"), logit = byId("logit");
  let mark = () => {};
  function show(number) {
    choose.value = String(number);
    drawReliability(data.diagrams[number], logit.checked ? "logit" : "linear");
    // The top label has no search of its own in a class-wise error: the worst class's is shown.
    drawBandwidth(data.searches[number - data.offset] || data.searches[data.worst]);
    mark(number);
  }
  data.diagrams.forEach((diagram, number) => {
    const option = document.createElement("option");
    option.value = String(number);
    option.textContent = diagram.label;
    choose.append(option);
  });
  choose.parentElement.hidden = data.diagrams.length < 2;
  byId("controls").hidden = false;
  choose.onchange = () => show(Number(choose.value));
  logit.onchange = () => show(Number(choose.value));
  drawSplit();
  mark = setUpTable(show);
  show(0);
  let drawn = widthOf(byId("reliability"));
  window.addEventListener("resize", () => {
    if (widthOf(byId("reliability")) === drawn) return;
    drawn = widthOf(byId("reliability"));
    show(Number(choose.value));
  });
})();
