// A page that is read from a file may start no worker: there, search runs in a hidden frame.
// The plugin `offline` would take such a script, known by its name, from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      const loaded = new Promise((done) => (script.onload = done));
      script.src = url;
      inside.document.head.append(script);
      this.postMessage = (data) =>
        loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
