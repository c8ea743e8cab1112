// A page that is opened from a file may start no worker. What would run in one, the search, then
// runs in a hidden frame, which gets and sends messages as a worker does.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) => scripts.forEach((script) => this.load(frame, script));
      this.load(frame, address).onload = () => {
        this.waiting.forEach((data) => this.give(inside, data));
        this.waiting = null;
      };
      this.inside = inside;
      this.frame = frame;
    }

    load(frame, address) {
      const script = frame.contentDocument.createElement("script");
      script.src = address;
      frame.contentDocument.head.append(script);
      return script;
    }

    give(inside, data) {
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.give(this.inside, data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
