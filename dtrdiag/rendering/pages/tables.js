// Tables that are sorted by a column, with units taken into account.
const UNITS = {
  kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3, tib: 1024 ** 4, pib: 1024 ** 5,
  us: 1e3, ms: 1e6, s: 1e9,
};

function amount(text) {
  const found = /^\s*([-−]?[\d,]*\.?\d+)\s*([A-Za-z]*)/.exec(text);
  if (!found) return NaN;
  const number = Number(found[1].replace("−", "-").replaceAll(",", ""));
  return number * (UNITS[found[2].toLowerCase()] ?? 1);
}

function sortable(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  // A row that begins with nothing goes with the one above it.
  if (!table.tHead || rows.length < 3 || rows.some((row) => !row.cells[0]?.textContent.trim())) return;
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (!head.textContent.trim()) return;
    const button = make("button", head.textContent, { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const numbers = head.classList.contains("right"), sign = down ? -1 : 1;
      const cell = (row) => row.cells[at]?.textContent ?? "";
      const order = (a, b) => {
        if (!numbers) return sign * cell(a).localeCompare(cell(b), "en", { numeric: true });
        const [x, y] = [amount(cell(a)), amount(cell(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return sign * (x - y);
      };
      for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.replaceChildren(...[...rows].sort(order));
    });
  });
}
