// What all of the page's scripts use. They are one script in the page, in one function.
// Texts of the page are only ever set as text.
const NARROW = 560, NOTHING = "–", STEP = 1.6, SLIDE = 0.3;
const $ = (name, within = document) => within.querySelector(name);
const all = (name, within = document) => [...within.querySelectorAll(name)];
const named = (id) => document.getElementById(id);
const data = (id) => JSON.parse(named(`${id}-data`).textContent);

function make(name, text, options = {}) {
  const made = Object.assign(document.createElement(name), options);
  if (text !== undefined) made.textContent = text;
  return made;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", text);
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

function copyButton(text) {
  const button = make("button", "Copy", { type: "button", className: "copy" });
  return copies(button, text);
}

function copies(button, text) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}
