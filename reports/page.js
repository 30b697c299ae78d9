"use strict";
// The contents are folded where they would push the answer off a phone's screen.
const wide = window.matchMedia("(min-width: 64rem)");
const contents = document.querySelector(".contents details");
const follow = () => { contents.open = wide.matches; };
wide.addEventListener("change", follow);
follow();

// Evidence is folded, but for the part that the address names, and on paper.
const parts = [...document.querySelectorAll("details.part")];
const named = () => location.hash.length > 1 && document.getElementById(location.hash.slice(1).split(":")[0]);
const unfold = () => {
  const target = named();
  const part = target && (target.closest("details.part") ?? target.querySelector("details.part"));
  if (part) { part.open = true; target.scrollIntoView(); }
};
for (const part of parts) part.open = false;
unfold();
window.addEventListener("hashchange", unfold);
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = parts.filter((part) => !part.open);
  for (const part of folded) part.open = true;
});
window.addEventListener("afterprint", () => { for (const part of folded) part.open = false; });

// A query, a command: copied whole.
for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(block);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.before(button);
}

// A long table to download is packed; a browser that can unpack it does.
for (const link of document.querySelectorAll("a.download[download$='.gz']")) {
  link.addEventListener("click", async (event) => {
    if (!window.DecompressionStream) return;
    event.preventDefault();
    const bytes = Uint8Array.from(atob(link.href.split(",")[1]), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const file = document.createElement("a");
    file.href = URL.createObjectURL(new Blob([await new Response(plain).arrayBuffer()], { type: "text/csv" }));
    file.download = link.download.replace(/\.gz$/, "");
    file.click();
    URL.revokeObjectURL(file.href);
  });
}

// Tables are sorted by the column whose head is chosen, and long ones can be searched.
const FACTORS = {
  ns: 1, "µs": 1e3, us: 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12,
  B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
};
const valueOf = (cell) => {
  const text = cell.textContent.trim();
  const found = /^([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*(\S*)/.exec(text);
  if (!found) return { text, number: NaN };
  const number = Number(found[1].replaceAll(",", "").replace("−", "-"));
  return { text, number: number * (FACTORS[found[2]] ?? 1) };
};
const compareValues = (a, b) => {
  const none = Number.isNaN(a.number) - Number.isNaN(b.number);
  return none || (Number.isNaN(a.number) ? a.text.localeCompare(b.text) : a.number - b.number);
};
const sort = (head) => {
  const table = head.closest("table");
  const at = [...head.parentNode.children].indexOf(head);
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row.cells[at]) }));
  rows.sort((a, b) => compareValues(a.value, b.value) * (down ? -1 : 1));
  body.append(...rows.map(({ row }) => row));
};
const isRegular = (table) => [...table.rows].every((row) => row.cells.length === table.rows[0].cells.length);
const searchFor = (table) => {
  const field = document.createElement("input");
  field.type = "search";
  field.className = "search";
  field.placeholder = "Search these rows";
  field.setAttribute("aria-label", "Search the rows of this table");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  (table.closest(".scroll") ?? table).before(field);
};
for (const table of document.querySelectorAll("table")) {
  if (!table.tHead || table.tBodies[0].rows.length < 3 || !isRegular(table)) continue;
  for (const head of table.tHead.rows[0].cells) {
    head.classList.add("sorts");
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }
  if (table.tBodies[0].rows.length > 12) searchFor(table);
}

// The bars of a figure are read with the pointer, or one after the other with the arrow keys.
const ARROWS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
for (const svg of document.querySelectorAll("figure > svg:has(.bar)")) {
  const bars = [...svg.querySelectorAll(".bar")];
  const figure = svg.parentNode;
  const said = figure.querySelector("output") ?? document.createElement("output");
  figure.querySelector("figcaption").before(said);
  const say = (bar) => {
    figure.querySelector(".bar.read")?.classList.remove("read");
    bar.classList.add("read");
    said.textContent = bar.querySelector("title").textContent;
  };
  svg.tabIndex = 0;
  svg.setAttribute("aria-description", "Arrow keys read the bars");
  svg.addEventListener("keydown", (event) => {
    const by = ARROWS[event.key];
    if (!by) return;
    const at = bars.findIndex((bar) => bar.classList.contains("read"));
    say(bars[at < 0 ? 0 : (at + by + bars.length) % bars.length]);
    event.preventDefault();
  });
  for (const bar of bars) bar.addEventListener("pointerenter", () => say(bar));
}
