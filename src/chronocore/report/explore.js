"use strict";
/* Point values of any part of the pairs, recomputed in the page. What counts as accurate,
   separated, shifted and so on was decided when the study was scored: here is only counting. */
const SMALL_N = 20;
const CLASSES = ["stable", "moderate", "strong", "very_strong"];

/** Return a base64 text as an array of numbers. */
function decode(text, Type) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}

/** Unpack the arrays of the pairs and of every run. */
function unpack(data) {
  return {
    measures: data.measures,
    cells: data.cells,
    names: data.names,
    survey: decode(data.survey, Uint16Array),
    topic: decode(data.topic, Uint16Array),
    region: decode(data.region, Uint16Array),
    runs: data.runs.map((run) => ({
      label: run.label,
      pair: decode(run.pair, data.bytes === 2 ? Uint16Array : Uint32Array),
      bits: decode(run.bits, Uint16Array),
      ratio: decode(run.ratio, Float32Array),
      older: decode(run.older, Float32Array),
      newer: decode(run.newer, Float32Array),
    })),
  };
}

/** Whether a pair is of the chosen survey, topic and region; -1 stands for all. */
function inside(study, pair, filter) {
  return (
    (filter.survey < 0 || study.survey[pair] === filter.survey) &&
    (filter.topic < 0 || study.topic[pair] === filter.topic) &&
    (filter.region < 0 || study.region[pair] === filter.region)
  );
}

/* Bits of a scored pair: outcome 0-1, alignment 2-4, stability 5-6, shift class 7-8,
   same prediction for both years 9, a direction is defined 10, it is right 11. */
const MEASURES = {
  both: { value: (bits) => ((bits & 3) === 0 ? 100 : 0) },
  separated: { value: (bits) => (((bits >> 2) & 7) === 0 ? 100 : 0) },
  zero_shift: { value: (bits) => (bits & 512 ? 100 : 0) },
  median_ratio: {
    keep: (bits) => !(bits & 512),
    value: (bits, run, i) => run.ratio[i],
    median: true,
  },
  right_direction: {
    keep: (bits) => !(bits & 512) && (bits & 1024) !== 0,
    value: (bits) => (bits & 2048 ? 100 : 0),
  },
  preserves: { value: (bits) => (((bits >> 5) & 3) === 0 ? 100 : 0) },
  benefit_older: { value: (bits, run, i) => 100 * run.older[i] },
  benefit_newer: { value: (bits, run, i) => 100 * run.newer[i] },
};

/** Return {estimate, n} of a measure over the classes given. */
function compute(study, run, measure, classes, filter) {
  const how = MEASURES[measure];
  const wanted = classes.map((name) => CLASSES.indexOf(name));
  const values = [];
  for (let i = 0; i < run.bits.length; i++) {
    const bits = run.bits[i];
    if (!wanted.includes((bits >> 7) & 3) || !inside(study, run.pair[i], filter)) continue;
    if (how.keep && !how.keep(bits)) continue;
    values.push(how.value(bits, run, i));
  }
  if (!values.length) return { estimate: null, n: 0 };
  if (how.median) {
    values.sort((a, b) => a - b);
    const half = values.length >> 1;
    const middle = values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
    return { estimate: middle, n: values.length };
  }
  return { estimate: values.reduce((a, b) => a + b, 0) / values.length, n: values.length };
}

function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

/** Draw an estimate and its interval along an axis. */
function bar(cell, measure) {
  const space = "http://www.w3.org/2000/svg";
  const [low, high] = measure.axis;
  const at = (value) => (100 * (Math.min(Math.max(value, low), high) - low)) / (high - low);
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 100 12");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const add = (name, attributes) => {
    const part = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
    svg.append(part);
  };
  const zero = at(measure.base);
  add("rect", { x: 0, y: 0, width: 100, height: 12, class: "track" });
  if (cell.estimate !== null) {
    const end = at(cell.estimate);
    add("rect", {
      x: Math.min(zero, end), y: 2, width: Math.max(Math.abs(end - zero), 0.6), height: 8,
      class: "fill",
    });
    if (cell.low !== undefined && cell.low !== null)
      add("rect", {
        x: at(cell.low), y: 5, width: Math.max(at(cell.high) - at(cell.low), 0.6), height: 2,
        class: "span",
      });
  }
  if (measure.base !== low) add("rect", { x: zero, y: 0, width: 0.5, height: 12, class: "span" });
  return svg;
}

function shown(value, digits) {
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

function start() {
  const place = document.getElementById("explore");
  const source = document.getElementById("chronocore-pairs");
  if (!place || !source) return;
  const study = unpack(JSON.parse(source.textContent));
  const control = (name) => document.getElementById("explore-" + name);
  const fill = (name, entries, all) => {
    const select = control(name);
    if (all) select.append(element("option", all, { value: "-1" }));
    entries.forEach((entry, i) => select.append(element("option", entry, { value: String(i) })));
    select.addEventListener("change", draw);
  };
  fill("measure", study.measures.map((measure) => measure.label));
  fill("run", study.runs.map((run) => run.label), "all runs");
  fill("survey", study.names.survey, "all surveys");
  fill("topic", study.names.topic, "all topics");
  fill("region", study.names.region, "all regions");

  function draw() {
    const number = (name) => Number(control(name).value);
    const measure = study.measures[number("measure")];
    const filter = {
      survey: number("survey"), topic: number("topic"), region: number("region"),
    };
    const whole = filter.survey < 0 && filter.topic < 0 && filter.region < 0;
    const body = control("rows");
    body.replaceChildren();
    let count = 0;
    for (const group of measure.groups) {
      study.runs.forEach((run, index) => {
        if (number("run") >= 0 && number("run") !== index) return;
        let cell = compute(study, run, measure.key, group.classes, filter);
        const known = (study.cells[measure.key] || [])[index];
        if (whole && known && known[group.key]) {
          const [estimate, low, high, n, few] = known[group.key];
          cell = { estimate, low, high, n, few };
        }
        const row = element("tr");
        row.append(element("th", group.label, { scope: "row" }));
        const label = element("td");
        label.append(element("bdi", run.label));
        row.append(label);
        row.append(
          element("td", cell.n.toLocaleString("en") + (cell.few || (cell.n && cell.n < SMALL_N) ? "*" : ""), {
            class: "num",
          }),
        );
        const value = element(
          "td", cell.estimate === null ? "–" : shown(cell.estimate, measure.digits), {
            class: "num",
          });
        if (cell.estimate !== null && cell.low !== undefined && cell.low !== null)
          value.append(
            element("span", ` [${shown(cell.low, measure.digits)}, ` +
              `${shown(cell.high, measure.digits)}]`, { class: "ci" }),
          );
        row.append(value);
        const drawn = element("td", undefined, { class: "drawn" });
        drawn.append(bar(cell, measure));
        row.append(drawn);
        body.append(row);
        count += cell.n;
      });
    }
    control("unit").textContent = measure.unit;
    const interval = whole && study.cells[measure.key];
    control("status").textContent =
      (count ? "" : "No evaluated pair is left. ") +
      (interval
        ? `Values and intervals are those of table ${measure.table}.`
        : "Point values, computed in this page from the pairs chosen; without intervals.");
  }
  draw();
  place.hidden = false;
  const entry = document.getElementById("explore-link");
  if (entry) entry.hidden = false;
}

function offer() {
  const button = document.getElementById("download");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const text = document.getElementById("chronocore-data").textContent;
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "chronocore-report.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

/** Print what is folded only to keep the screen short; long tables stay as the reader left them. */
function unfoldForPrint() {
  const folded = () => [...document.querySelectorAll("details.more:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = folded();
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
}

if (typeof module !== "undefined") module.exports = { compute, unpack };
else {
  start();
  offer();
  unfoldForPrint();
}
