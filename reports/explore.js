// Figures of curves and heat maps can be drawn anew, to zoom in, to read values and to leave curves
// out; those over the time of the trace move together, and the address of the page keeps the part.
const figures = new Map(); // element of the figure: its plot, while one is shown
const DASHES = { dashed: [6, 3], dotted: [2, 3], dashdot: [8, 3, 2, 3] };
const TIMES = [["h", 3.6e12], ["min", 1.2e11, 6e10], ["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const SIZES = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];

const digits = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4))));
const inUnits = (value, units) => {
  if (value === 0) return "0";
  const [name, least, factor = least] = units.find((unit) => Math.abs(value) >= unit[1]) ?? units.at(-1);
  return `${digits(value / factor)} ${name}`;
};
const FORMS = {
  time: (value) => inUnits(value, TIMES),
  data: (value) => inUnits(value, SIZES),
  share: (value) => `${Number((value * 100).toPrecision(4))}%`,
  count: digits,
  number: digits,
};
const written = (kind) => (value) => (value === null || value === undefined ? "–" : FORMS[kind](value));

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const isOverTime = (content) => content.x.kind === "time" && !content.x.log && content.x.title === "time since the start";

const steps = (units, parts) => units.flatMap((unit) => parts.map((part) => part * unit)).sort((a, b) => a - b);
const TENS = [1, 2, 2.5, 5, 10, 20, 25, 50, 100, 200, 250, 500];
const INCREMENTS = {
  time: [...steps([1, 1e3, 1e6], TENS), ...steps([1e9], [1, 2, 5, 10, 20, 30]), ...steps([6e10], [1, 2, 5, 10, 20, 30]), ...steps([3.6e12], [1, 2, 6, 12, 24, 48, 120, 240])],
  data: Array.from({ length: 60 }, (_, one) => 2 ** one),
};
const decades = (plot, at, low, high) => {
  const first = Math.floor(Math.log10(low));
  const powers = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, one) => 10 ** (first + one));
  return steps(powers, high / low < 100 ? [1, 2, 5] : [1]).filter((value) => value >= low && value <= high);
};
// Of bytes: powers of two, or, where few are seen, steps of one.
const doublings = (plot, at, low, high) => {
  const steps = high / low < 16 ? 2 ** Math.ceil(Math.log2((high - low) / 8)) : 0;
  const [first, last] = [low, high].map((value) => (steps ? value / steps : Math.log2(value)));
  const apart = steps ? 1 : Math.ceil((last - first) / 8);
  const count = Math.floor((Math.floor(last) - Math.ceil(first)) / apart) + 1;
  return Array.from({ length: count }, (_, one) => Math.ceil(first) + one * apart).map((one) => (steps ? one * steps : 2 ** one));
};
const axisOf = (axis, side) => ({
  ...(INCREMENTS[axis.kind] && !axis.log ? { incrs: INCREMENTS[axis.kind] } : {}),
  ...(axis.log && axis.kind === "data" ? { splits: doublings, filter: (plot, splits) => splits } : axis.log === 10 ? { splits: decades } : {}),
  stroke: colour("quiet"),
  grid: { stroke: colour("grid"), width: 1 },
  ticks: { show: false },
  font: "12px system-ui",
  size: side === "y" ? 72 : 32,
  space: side === "y" ? 36 : 90,
  values: (plot, values) => values.map((value) => (value === null ? "" : written(axis.kind)(value))),
});
const rangeOf = (axis) => (plot, low, high) => {
  if (axis.kind === "share" || low === null) return axis.ends;
  if (axis.log) return uPlot.rangeLog(low, high, plot.scales.y.log, true);
  const space = (high - Math.min(low, 0)) * 0.05 || 1;
  return [axis.ends[0] <= 0 && low >= 0 ? 0 : low - space, high + space];
};
const scaleOf = (axis, more) => ({ time: false, ...(axis.log ? { distr: 3, log: axis.log === 2 ? 2 : 10 } : {}), ...more });

const seriesOf = (curve, content) => ({
  label: curve.name || content.y.title,
  stroke: colour(curve.colour),
  width: 2,
  dash: DASHES[curve.line],
  points: { show: curve.line === "none" || undefined },
  paths: curve.line === "none" ? () => null : curve.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
  value: (plot, value, at, index) => written(content.y.kind)(valueAt(plot, at, index, curve.steps)),
});
// Curves have points of their own: between two of its own a curve has a value, too.
const valueAt = (plot, at, index, isStepped) => {
  const ys = plot.data[at];
  if (index === null || ys[index] !== undefined) return ys[index];
  let [before, after] = [index, index];
  while (before >= 0 && ys[before] === undefined) before -= 1;
  while (after < ys.length && ys[after] === undefined) after += 1;
  const [low, high] = [ys[before], ys[after]];
  if (low === undefined || low === null || high === undefined || high === null) return null;
  if (isStepped) return low;
  const [x, first, last] = [index, before, after].map((one) => plot.data[0][one]);
  return low + ((high - low) * (x - first)) / (last - first);
};

let moving = false;
const isWhole = (plot, low, high) => low <= plot.whole[0] && high >= plot.whole[1];
// Replays may last shorter than the trace: a part that they do not have leaves them whole.
const showPart = (figure, low, high) => {
  if (moving) return;
  moving = true;
  const all = isWhole(figures.get(figure), low, high);
  for (const plot of figures.values()) {
    if (!plot || !plot.isOverTime) continue;
    const [first, last] = plot.whole;
    const has = !all && low < last && high > first;
    plot.setScale("x", has ? { min: Math.max(low, first), max: Math.min(high, last) } : { min: first, max: last });
  }
  queueMicrotask(() => { moving = false; }); // after the plots have done it
  keepPart(figure, low, high);
};
// In the page's address: the part of time, and of a heat map that of the rows.
const keepPart = (figure, low, high) => {
  const plot = figures.get(figure);
  const [bottom, top] = plot.rows ?? plot.content.y.ends;
  const [first, last] = plot.content.y.ends;
  const rows = plot.content.rows && (bottom > first || top < last) ? `,y=${Math.round(bottom)}-${Math.round(top)}` : "";
  const time = rows || !isWhole(plot, low, high) ? `:t=${Math.round(low)}-${Math.round(high)}` : "";
  history.replaceState(null, "", `#${figure.id}${time}${rows}`);
};
// Upright lines with a word beside them, such as the answer's capacity.
const mark = (plot) => {
  const { ctx, bbox, content } = plot;
  ctx.save();
  Object.assign(ctx, { strokeStyle: colour("quiet"), fillStyle: colour("quiet"), lineWidth: devicePixelRatio, font: `${12 * devicePixelRatio}px system-ui`, textBaseline: "top" });
  for (const { x, text } of content.marks) {
    if (x < plot.scales.x.min || x > plot.scales.x.max) continue;
    const left = plot.valToPos(x, "x", true);
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    ctx.textAlign = left > bbox.left + bbox.width / 2 ? "right" : "left";
    ctx.fillText(text, left + (ctx.textAlign === "left" ? 4 : -4) * devicePixelRatio, bbox.top + 2);
  }
  ctx.restore();
};

// Heat maps: a row of cells has its ends, the windows of its cells and a list of each of their numbers.
const transforms = { time: [Math.log, Math.exp], data: [Number, Number] }; // rows of time are on a log scale
const heightOf = (plot, value) => plot.valToPos(plot.content.y.log ? Math.max(value, 1) : value, "y", true);
const paint = (plot) => {
  const { ctx, bbox, content } = plot;
  const [low, high, faintest] = content.scale;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = colour("violet");
  for (const [bottom, top, columns, ...numbers] of content.rows) {
    const [y, end] = [heightOf(plot, top), heightOf(plot, bottom)];
    columns.forEach((column, at) => {
      const [x, right] = [column, column + 1].map((one) => plot.valToPos(one * content.step, "x", true));
      const part = Math.log(numbers.at(-1)[at] / low) / Math.log(high / low);
      ctx.globalAlpha = faintest + (1 - faintest) * Math.min(Math.max(part, 0), 1);
      ctx.fillRect(x, y, Math.max(right - x, 1), Math.max(end - y, 1));
    });
  }
  ctx.restore();
};
const cellAt = (plot) => {
  const { rows, step } = plot.content;
  const value = plot.posToVal(plot.cursor.top, "y");
  return [rows.findIndex(([low, high]) => value < high && (value >= low || high === 1)), Math.floor(plot.posToVal(plot.cursor.left, "x") / step)];
};
const read = (plot) => {
  if (plot.cursor.left < 0 || plot.cursor.top < 0) return;
  const { content } = plot;
  const [row, column] = plot.cell = cellAt(plot);
  const range = (low, high, kind) => `${written(kind)(low)} to ${written(kind)(high)}`;
  const when = range(column * content.step, (column + 1) * content.step, "time");
  if (row < 0) { plot.said.textContent = `${written(content.y.kind)(plot.posToVal(plot.cursor.top, "y"))}, ${when}: nothing`; return; }
  const [low, high, columns, ...numbers] = content.rows[row];
  const at = columns.indexOf(column);
  const told = content.values.map((kind, one) => {
    const text = written(kind)(at < 0 ? 0 : numbers[one][at]);
    return kind === "count" ? `${text} request${text === "1" ? "" : "s"}` : text;
  });
  const names = (content.files?.rows[row] ?? []).slice(0, 3).map(([name, count]) => `${content.files.names[name]} ${digits(count)}`);
  const most = names.length ? `; most requests there, at any time: ${names.join(", ")}` : "";
  plot.said.textContent = `${range(low, high, content.y.kind)}, ${when}: ${told.join(", ")}${most}`;
};
// The files with the most requests in the rows that are seen. Of each row its first ten are known.
const listFiles = (plot) => {
  const { rows, files } = plot.content;
  const { min, max } = plot.scales.y;
  const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
  const seen = [...rows.keys()].filter((at) => rows[at][0] < max && rows[at][1] > min);
  const counts = new Map();
  for (const [name, count] of seen.flatMap((at) => files.rows[at])) counts.set(name, (counts.get(name) ?? 0) + count);
  const first = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 10);
  const total = sum(seen.flatMap((at) => rows[at][3]));
  const lines = first.map(([name, count]) => [files.names[name], count]);
  const ends = seen.length ? [rows[seen[0]][0], rows[seen.at(-1)][1]] : [min, max];
  const table = Object.assign(document.createElement("table"), { className: "files" });
  table.createCaption().textContent = `Files with the most requests from ${ends.map(written("data")).join(" to ")}, at any time`;
  for (const [name, count] of [...lines, ["other files, or not known", total - sum(first.map((one) => one[1]))]]) {
    const row = table.insertRow();
    row.insertCell().textContent = name;
    Object.assign(row.insertCell(), { className: "n", textContent: `${digits(count)} (${total ? written("share")(count / total) : 0})` });
  }
  plot.files?.remove();
  plot.files = table;
  plot.root.append(table);
};

const within = ([low, high], [first, last]) => ({ min: Math.max(low, first), max: Math.min(high, last) });
const zoom = (plot, part) => plot.setScale("x", within(part(plot.scales.x.min, plot.scales.x.max, plot.whole), plot.whole));
const zoomRows = (plot, part) => {
  if (!plot.content.rows) return;
  const [to, from] = transforms[plot.content.y.kind];
  const { min, max } = plot.scales.y;
  plot.setScale("y", within(part(to(min), to(max), plot.content.y.ends.map(to)).map(from), plot.content.y.ends));
};
const smaller = (low, high) => [low + (high - low) / 4, high - (high - low) / 4];
const larger = (low, high) => [low - (high - low) / 2, high + (high - low) / 2];
const moved = (low, high, by) => [low + by, high + by];
const lower = (low, high, [first]) => moved(low, high, -Math.min((high - low) / 4, low - first));
const higher = (low, high, [, last]) => moved(low, high, Math.min((high - low) / 4, last - high));
const showAll = (plot) => {
  plot.rows = null;
  plot.setScale("x", { min: plot.whole[0], max: plot.whole[1] });
};
const KEYS = {
  "+": (plot) => zoom(plot, smaller),
  "-": (plot) => zoom(plot, larger),
  ArrowLeft: (plot) => zoom(plot, lower),
  ArrowRight: (plot) => zoom(plot, higher),
  i: (plot) => zoomRows(plot, smaller),
  o: (plot) => zoomRows(plot, larger),
  ArrowDown: (plot) => zoomRows(plot, lower),
  ArrowUp: (plot) => zoomRows(plot, higher),
  0: showAll,
};
// With Shift, the arrows move what is read: from cell to cell, or from point to point.
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
const clamp = (value, last) => Math.min(Math.max(value, 0), last);
const move = (plot, [right, up]) => {
  const [xs] = plot.data;
  const { rows, step } = plot.content;
  if (!rows) {
    plot.setCursor({ left: plot.valToPos(xs[clamp((plot.cursor.idx ?? -1) + right, xs.length - 1)], "x"), top: 0 });
    return;
  }
  const [row, column] = plot.cell ?? [-1, -1];
  const [low, high] = rows[clamp(row + up, rows.length - 1)];
  const [to, from] = transforms[plot.content.y.kind];
  const middle = from((to(Math.max(low, 1)) + to(high)) / 2);
  plot.setCursor({ left: plot.valToPos((clamp(column + right, xs.length - 2) + 0.5) * step, "x"), top: plot.valToPos(middle, "y") });
};

const reachable = (plot) => {
  plot.root.tabIndex = 0;
  plot.root.setAttribute("role", "group");
  plot.root.setAttribute("aria-label", `+ and - zoom, ${plot.content.rows ? "i and o zoom in the rows, " : ""}arrows move, with Shift they read, 0 shows all`);
  plot.root.addEventListener("keydown", (event) => {
    const act = event.shiftKey && STEPS[event.key] ? () => move(plot, STEPS[event.key]) : KEYS[event.key];
    if (event.target === plot.root && act) { act(plot); event.preventDefault(); }
  });
  for (const head of plot.root.querySelectorAll(".u-series th")) {
    head.tabIndex = 0;
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") head.click(); });
  }
};

// What differs between curves and cells: their data, series and what a drag and the pointer do.
const partsOf = (content) => {
  if (!content.rows) {
    return {
      data: uPlot.join(content.curves.map((curve) => [curve.x, curve.y])),
      series: content.curves.map((curve) => seriesOf(curve, content)),
      range: rangeOf(content.y),
      hooks: content.marks ? { drawAxes: [mark] } : {},
    };
  }
  const xs = Array.from({ length: Math.round(content.x.ends[1] / content.step) + 1 }, (_, at) => at * content.step);
  return {
    data: [xs, xs.map(() => null)],
    series: [{ paths: () => null, points: { show: false } }],
    range: (plot) => plot.rows ?? content.y.ends,
    drag: { x: true, y: true, uni: 20 },
    hooks: { drawAxes: [paint], setCursor: [read] },
  };
};

const explore = (figure) => {
  const content = JSON.parse(figure.dataset.content);
  const over = isOverTime(content);
  const { data, series, range, drag, hooks } = partsOf(content);
  const place = figure.querySelector(".explored");
  const xs = data[0];
  const scaled = (shown, key) => {
    if (key === "y") shown.rows = [shown.scales.y.min, shown.scales.y.max];
    if (key === "y" && content.files) listFiles(shown);
    if (key === "y" && content.rows && shown.isReady) keepPart(figure, shown.scales.x.min, shown.scales.x.max);
    if (key === "x" && over && shown.isReady) showPart(figure, shown.scales.x.min, shown.scales.x.max);
  };
  const begin = (made) => {
    made.content = content;
    if (!content.rows) return;
    made.said = document.createElement("output");
    made.root.append(made.said);
  };
  const plot = new uPlot({
    width: place.clientWidth || document.querySelector("main").clientWidth, // folded away
    height: 330,
    scales: { x: scaleOf(content.x, {}), y: scaleOf(content.y, { range }) },
    axes: [axisOf(content.x, "x"), axisOf(content.y, "y")],
    series: [{ label: content.x.title, value: (shown, value) => written(content.x.kind)(value) }, ...series],
    legend: { show: !content.rows },
    cursor: { drag, ...(over ? { sync: { key: "time", scales: ["x", null], setSeries: false } } : {}) },
    hooks: { ...hooks, init: [begin], setScale: [scaled] },
  }, data, place);
  plot.isOverTime = over;
  plot.whole = [xs[0], xs.at(-1)];
  if (content.rows) plot.over.addEventListener("dblclick", () => showAll(plot));
  figures.set(figure, plot);
  queueMicrotask(() => { plot.isReady = true; });
  reachable(plot);
};

const toggle = (figure, on) => {
  const plot = figures.get(figure);
  figure.classList.toggle("exploring", on);
  figure.querySelector(".explore").setAttribute("aria-pressed", String(on));
  if (plot) { plot.destroy(); figures.set(figure, null); }
  if (on) explore(figure);
};

for (const figure of document.querySelectorAll("figure[data-content]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "explore";
  button.textContent = "Explore";
  button.title = "Zoom by dragging, read values, leave curves out; twice clicked shows all";
  button.setAttribute("aria-pressed", "false");
  const place = document.createElement("div");
  place.className = "explored";
  figure.querySelector("h3").append(button);
  figure.querySelector("svg.wide").before(place);
  figures.set(figure, null);
  button.addEventListener("click", () => {
    const on = !figure.classList.contains("exploring");
    const over = isOverTime(JSON.parse(figure.dataset.content));
    const group = over ? [...figures.keys()].filter((one) => isOverTime(JSON.parse(one.dataset.content))) : [figure];
    for (const one of group) toggle(one, on);
    if (!on) history.replaceState(null, "", `#${figure.id}`);
  });
}

// A new size or colour scheme: what is shown is drawn anew, with the part of time that is seen.
const again = () => {
  for (const [figure, plot] of figures) {
    if (!plot) continue;
    const { min, max } = plot.scales.x;
    toggle(figure, true);
    moving = true;
    Object.assign(figures.get(figure), { rows: plot.rows }).setScale("x", { min, max });
    queueMicrotask(() => { moving = false; });
  }
};
window.addEventListener("resize", again);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

const kept = /^#(figure-[\w-]+):t=(\d+)-(\d+)(?:,y=(\d+)-(\d+))?$/.exec(location.hash);
const seen = kept && document.getElementById(kept[1]);
if (seen && seen.dataset.content) {
  seen.querySelector(".explore").click();
  const plot = figures.get(seen);
  const [from, to, ...rows] = kept.slice(2).filter(Boolean).map(Number);
  if (plot.content.rows && rows.length) Object.assign(plot, { rows }).setScale("y", { min: rows[0], max: rows[1] });
  showPart(seen, from, to);
  seen.scrollIntoView();
}

// The answer at each capacity: a slider over the rows of the table that has them all.
const slider = document.querySelector(".slider");
const answers = document.querySelector("table.answers");
if (slider && answers) {
  const rows = [...answers.tBodies[0].rows].map((row) => [...row.cells]);
  const texts = rows.map((cells) => cells.map((cell) => cell.textContent.trim()));
  const input = document.createElement("input");
  const said = document.createElement("output");
  Object.assign(input, { type: "range", min: 0, max: rows.length - 1, step: 1 });
  input.value = String(Math.max(0, texts.findIndex(([size]) => size === slider.dataset.answer)));
  input.setAttribute("aria-label", "NVM capacity");
  const say = () => {
    const at = Number(input.value);
    const [size, placement, shares, time, gain, runnerUp] = texts[at];
    said.textContent = `With ${size}: ${placement}${shares ? ` (${shares})` : ""}, ${time}, gain ${gain}; runner-up: ${runnerUp}`;
    input.setAttribute("aria-valuetext", said.textContent);
    for (const [figure, plot] of figures) {
      if (!plot || !figure.id.startsWith("figure-capacity")) continue;
      plot.setCursor({ left: plot.valToPos(valueOf(rows[at][0]).number, "x"), top: 0 });
    }
  };
  input.addEventListener("input", say);
  slider.append(input, said);
  say();
}
