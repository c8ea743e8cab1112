// Drawings that are zoomed, and whose nodes tell about themselves.
// Scales of a picture, as of its text: comfortable, small, only just to be read, large enough.
const READABLE = 0.9, SMALL = 0.8, LEGIBLE = 0.65, LARGEST = 1.25;
// Of the tallest box that a stylesheet gives: what a picture may need to be shown as a whole.
const TALLER = 1.6;
const PARTLY = "A part of the graph is shown: drag it, or press the arrow keys, for the rest, " +
  "or “all” for the whole.";

class Drawing {
  constructor(figure) {
    this.figure = figure;
    this.details = data(figure.id);
    this.canvas = $(".canvas", figure);
    this.svg = $("svg", this.canvas);
    this.whole = this.svg.getAttribute("viewBox").split(/[ ,]+/).map(Number);
    this.box = this.whole;
    this.natural = [Number(this.svg.dataset.width), Number(this.svg.dataset.height)];
    if (this.natural.every((length) => length > 0)) this.open();
    const tools = $(".tools", figure);
    tools.hidden = false;
    for (const button of all("button", tools)) {
      button.addEventListener("click", () => this.act(button.dataset.do));
    }
    for (const node of all("[role=button]", this.svg)) {
      node.addEventListener("click", () => this.moved || this.tell(node));
      node.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.tell(node);
      });
    }
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.from = [event.clientX, event.clientY];
      this.moved = false;
    });
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointerleave", "pointercancel"]) {
      this.canvas.addEventListener(kind, () => (this.from = null));
    }
    figure.dataset.ready = "yes";
  }

  // At first the whole is shown, where its text can then be read. Else text is large enough, and what
  // that leaves no room for is a drag away.
  open() {
    const [width, height] = this.natural, tallest = this.svg.clientHeight;
    if (!tallest) return;
    // A wide picture has the whole line, and what is read about its boxes stands below.
    if (this.across() < SMALL) $(".beside", this.figure).classList.add("stacked");
    const across = this.across(), whole = Math.min(across, tallest / height);
    let scale = whole;
    if (whole < LEGIBLE) scale = across < LEGIBLE ? READABLE : Math.min(across, READABLE);
    // Nothing is lost by a taller box, and the page is scrolled anyway.
    if (across >= LEGIBLE && height * LEGIBLE <= tallest * TALLER) scale = Math.max(whole, LEGIBLE);
    const most = scale * height <= tallest * TALLER && across >= LEGIBLE ? scale * height : tallest;
    this.svg.style.height = `${Math.max(Math.min(scale * height, most), 160)}px`;
    this.part(scale);
  }

  // The scale at which the picture is as wide as its box.
  across() {
    return Math.min(LARGEST, this.svg.clientWidth / this.natural[0]);
  }

  part(scale) {
    const [x, y, width, height] = this.whole, drawn = (scale * this.natural[0]) / width;
    const box = [x, y, this.svg.clientWidth / drawn, this.svg.clientHeight / drawn];
    if (box[2] >= width - 1 && box[3] >= height - 1) return;
    if (box[2] >= width) box[0] = x + (width - box[2]) / 2;
    else if (box[2] < width / 2) box[0] = this.middle() - box[2] / 2;
    this.show(box);
  }

  // Of the topmost op, along x.
  middle() {
    const node = $("[id^=op_]", this.svg) ?? this.svg, place = node.getBoundingClientRect();
    const at = new DOMPoint(place.left + place.width / 2, place.top);
    return at.matrixTransform(this.svg.getScreenCTM().inverse()).x;
  }

  tell(node) {
    const list = make("dl");
    for (const [label, text] of this.details[node.id]) {
      list.append(make("dt", label), make("dd", text));
    }
    named(`${this.figure.id}-details`).replaceChildren(list);
    for (const other of all(".picked", this.svg)) {
      other.classList.remove("picked");
      other.removeAttribute("aria-pressed");
    }
    node.classList.add("picked");
    node.setAttribute("aria-pressed", "true");
  }

  show(box) {
    const [x, y, width, height] = this.whole;
    if (box[2] >= width && box[3] >= height) box = this.whole;
    else if (box[2] < width / 200) return;
    const limit = (at, span, from, most) =>
      Math.max(from - span / 2, Math.min(from + most - span / 2, at));
    if (box === this.whole) this.box = box;
    else this.box = [limit(box[0], box[2], x, width), limit(box[1], box[3], y, height), box[2], box[3]];
    this.svg.setAttribute("viewBox", this.box.join(" "));
    const extent = named(`${this.figure.id}-extent`);
    if (extent) extent.textContent = this.box === this.whole ? "" : PARTLY;
  }

  zoom(factor, across = 0.5, down = 0.5) {
    const [x, y, width, height] = this.box;
    const [left, top] = [x + width * (1 - factor) * across, y + height * (1 - factor) * down];
    this.show([left, top, width * factor, height * factor]);
  }

  act(what) {
    if (what === "in") this.zoom(1 / STEP);
    else if (what === "out") this.zoom(STEP);
    else this.show(this.whole);
  }

  slide(across, down) {
    const [x, y, width, height] = this.box;
    this.show([x + across * width, y + down * height, width, height]);
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const slides = {
      ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2],
    };
    const does = { "+": "in", "=": "in", "-": "out", Home: "all", 0: "all", Escape: "all" };
    if (event.key in slides) this.slide(...slides[event.key]);
    else if (event.key in does) this.act(does[event.key]);
    else return;
    event.preventDefault();
  }

  wheel(event) {
    const focused = this.canvas.contains(document.activeElement);
    if (!(event.ctrlKey || event.metaKey || focused)) return;
    if (event.deltaY > 0 && this.box === this.whole) return;
    event.preventDefault();
    const place = this.svg.getBoundingClientRect();
    this.zoom(
      Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006),
      (event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height
    );
  }

  move(event) {
    if (!this.from) return;
    const [x, y] = [event.clientX - this.from[0], event.clientY - this.from[1]];
    if (!this.moved && Math.hypot(x, y) < 4) return;
    this.moved = true;
    this.from = [event.clientX, event.clientY];
    const scale = this.svg.getScreenCTM().a;
    this.show([this.box[0] - x / scale, this.box[1] - y / scale, this.box[2], this.box[3]]);
  }
}
