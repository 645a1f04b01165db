// A worker for pages that are opened from files, where browsers start none: its script runs in a
// hidden frame. The search of the site needs it. The name tells Material for MkDocs that the site
// brings its own, so that no page asks another server for one.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("load", () => this.begin(frame, url), {once: true});
      document.body.append(frame);
    }

    begin(frame, url) {
      const inside = frame.contentWindow;
      // What the script posts goes to the listeners of this worker.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = inside.document.createElement("script");
      script.addEventListener("load", () => {
        this.inside = inside;
        this.waiting.forEach((data) => this.postMessage(data));
      });
      script.src = url;
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.inside) {
        this.inside.dispatchEvent(new MessageEvent("message", {data}));
      } else {
        this.waiting.push(data);
      }
    }
  };
}
