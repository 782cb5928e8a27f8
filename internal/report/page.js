"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.cells = data.cells.map((values) => Object.fromEntries(values.map((v, i) => [data.columns[i], v])));
  const marks = {
    nan: { name: "odd", text: "NaN", words: "NaN or infinite" },
    zeros: { name: "zeros", text: "∅", words: "zeros" },
    differs: { name: "odd", text: "?", words: "differs, by no number" },
    other_nan: { name: "odd", text: "NaN", words: "NaN or infinite in the other model" },
  };
  const make = (tag, text, attributes) => {
    const e = document.createElement(tag);
    if (text !== undefined && text !== null) e.textContent = text;
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    return e;
  };
  const by = (id) => document.getElementById(id);
  const short = (v) => {
    if (v === null || v === undefined || !isFinite(v)) return "–";
    if (v === 0) return "0";
    const a = Math.abs(v);
    if (a >= 1e4 || a < 1e-3) return v.toExponential(0).replace("e+", "e"); // a cell has room for five characters
    return String(Number(v.toPrecision(a >= 100 ? 3 : 2)));
  };
  const exact = (v) => (v === null || v === undefined ? "–" : String(Number(v.toPrecision(5))));
  const percent = (v) => (v === 0 ? "0 %" : short(100 * v) + " %");
  const nameOf = (c) => c.name || (c.layer < 0 ? "" : "layers." + c.layer + ".") + data.kinds[c.kind] + ".weight";

  // The tabs: what the map shows.
  const tabs = [
    { label: "Size", hint: "RMS of the numbers", value: (c) => c.rms, log: true },
    { label: "Largest ÷ RMS", hint: "the largest number by the RMS", value: (c) => c.peak, log: true },
    { label: "Error at 4 bits", hint: "what Q4_0 changes, by the RMS", value: (c) => c.q4, percent: true },
  ];
  if (data.other) {
    tabs.push({ label: "Difference", hint: "RMS of the difference, by the RMS", value: (c) => (c.status === "equal" ? 0 : c.status === "changed" ? c.relative : null), percent: true, log: true, all: true });
  }
  let tab = data.other ? tabs[tabs.length - 1] : tabs[0];
  let together = Boolean(tab.all); // one scale for all kinds
  let current = null;

  const stops = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"].map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  const color = (t) => {
    const x = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
    const i = Math.min(Math.floor(x), stops.length - 2);
    return stops[i].map((v, k) => Math.round(v + (x - i) * (stops[i + 1][k] - v)));
  };
  const measure = (c) => {
    const v = tab.value(c);
    return v === null || v === undefined || !isFinite(v) ? null : v;
  };
  const isMatrix = (c) => data.shapes[c.shape].length > 1;
  const scaleOf = (list) => {
    const values = list.map(measure).filter((v) => v !== null && (!tab.log || v > 0));
    if (!values.length) return () => 0;
    const f = tab.log ? Math.log : (v) => v;
    let low = Infinity, high = -Infinity;
    for (const v of values) { low = Math.min(low, f(v)); high = Math.max(high, f(v)); }
    if (tab.all) low = Math.min(low, f(1e-4));
    // What differs by less than half of its size is not spread over all colours.
    const middle = (low + high) / 2, half = Math.max((high - low) / 2, tab.log ? Math.log(1.5) / 2 : Math.abs(middle) / 5);
    low = middle - half;
    high = middle + half;
    return (v) => (tab.log && v <= 0 ? 0 : high > low ? (f(v) - low) / (high - low) : 0.5);
  };

  // The map.
  const map = by("map"), outside = by("outside");
  const cells = new Map(); // element by cell
  const rows = new Map(); // cells by kind
  const place = new Map();
  const button = (c) => {
    const e = make("button", null, { class: "cell", type: "button", tabindex: "-1" });
    e.addEventListener("click", () => choose(c, true));
    cells.set(c, e);
    return e;
  };
  const build = () => {
    const inLayers = [];
    for (const c of data.cells) {
      if (c.layer < 0) { outside.append(button(c)); continue; }
      inLayers.push(c);
      if (!rows.has(c.kind)) rows.set(c.kind, []);
      rows.get(c.kind).push(c);
      place.set(c.kind + ":" + c.layer, c);
    }
    if (data.layers > 48) map.classList.add("small");
    else if (data.layers > 16) map.style.setProperty("--cell", "2.35rem");
    if (inLayers.length) {
      const head = make("div", null, { class: "row head" });
      head.append(make("span", "layer", { class: "kind" }));
      const every = data.layers > 48 ? 8 : 1;
      for (let i = 0; i < data.layers; i++) head.append(make("span", i % every ? "" : i));
      map.append(head);
    }
    data.order.forEach((kind) => {
      const row = make("div", null, { class: "row", role: "row" });
      row.append(make("span", data.kinds[kind], { class: "kind", title: data.kinds[kind] }));
      for (let i = 0; i < data.layers; i++) {
        const c = place.get(kind + ":" + i);
        row.append(c ? button(c) : make("span"));
      }
      map.append(row);
    });
  };
  const paint = () => {
    const all = scaleOf(data.cells.filter((c) => isMatrix(c) || tab.all));
    const scales = new Map([...rows].map(([kind, list]) => [kind, scaleOf(list)]));
    const marked = new Set();
    for (const [c, e] of cells) {
      const v = measure(c), mark = c.mark === "other_nan" && !tab.all ? null : marks[c.mark] || (tab.all && v === null && c.status ? marks.differs : null);
      e.classList.remove("odd", "zeros");
      if (mark && !(tab.all && v === 0)) {
        marked.add(mark);
        e.classList.add(mark.name);
        e.style.background = e.style.color = "";
        e.textContent = c.layer < 0 ? data.kinds[c.kind] + "  " + mark.text : mark.text;
        e.title = nameOf(c) + ": " + mark.words;
        continue;
      }
      const shown = v === null ? "–" : tab.percent ? short(100 * v) : short(v);
      e.textContent = c.layer < 0 ? data.kinds[c.kind] + "  " + shown : shown;
      e.title = nameOf(c) + ": " + tab.label + " " + (tab.percent && v !== null ? percent(v) : shown);
      if (v === null || (tab.all && v === 0)) {
        e.style.background = e.style.color = "";
        if (v === 0) e.textContent = c.layer < 0 ? data.kinds[c.kind] + "  equal" : "=";
        continue;
      }
      const scale = together || c.layer < 0 ? all : scales.get(c.kind);
      const [r, g, b] = color(scale(v));
      e.style.background = `rgb(${r},${g},${b})`;
      e.style.color = 0.3 * r + 0.6 * g + 0.1 * b > 130 ? "#101010" : "#ffffff";
    }
    const ramp = by("ramp");
    ramp.style.background = "linear-gradient(to right," + stops.map((s) => `rgb(${s})`).join(",") + ")";
    by("marks").replaceChildren();
    for (const mark of Object.values(marks)) {
      if (marked.has(mark)) by("marks").append(make("span", mark.text, { class: "swatch " + mark.name, "aria-hidden": "true" }), make("span", mark.words));
    }
    by("scale").textContent = tab.hint + (tab.percent ? ", in %" : "") + (together ? "; one scale for all" : "; a scale for each kind");
    for (const e of by("tabs").children) e.setAttribute("aria-pressed", String(e.textContent === tab.label));
    for (const e of by("scales").children) e.setAttribute("aria-pressed", String((e.dataset.all === "1") === together));
  };

  // The card.
  const facts = (list) => {
    const dl = make("dl");
    for (const [k, v] of list) if (v !== null && v !== undefined) dl.append(make("dt", k), make("dd", v));
    return dl;
  };
  const histogram = (bins) => {
    const ns = "http://www.w3.org/2000/svg", width = 305, height = 96;
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height + 14}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "how many numbers there are from -6 to 6 RMS, on a logarithmic scale");
    const most = Math.log1p(Math.max(...bins));
    bins.forEach((n, i) => {
      const h = most ? (Math.log1p(n) / most) * height : 0;
      const r = document.createElementNS(ns, "rect");
      for (const [k, v] of Object.entries({ x: i * 5 + 0.5, y: height - h, width: 4, height: h })) r.setAttribute(k, v);
      svg.append(r);
    });
    [["-6 RMS", 0, "start"], ["0", width / 2, "middle"], ["6 RMS", width, "end"]].forEach(([text, x, anchor]) => {
      const t = document.createElementNS(ns, "text");
      t.textContent = text;
      t.setAttribute("x", x); t.setAttribute("y", height + 11); t.setAttribute("text-anchor", anchor);
      svg.append(t);
    });
    return svg;
  };
  const lines = (title, list) => {
    list = (list || []).filter((l) => l.ratio > 0);
    if (!list.length) return [];
    const ol = make("ol");
    for (const l of list) ol.append(make("li", "#" + l.index + "  " + short(l.ratio) + " ×"));
    return [make("h3", title), ol];
  };
  const quoted = (s) => (/^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'");
  const words = { equal: "equal", changed: "changed", shape: "another shape", only_this: "only in the first model", only_other: "only in the second model" };
  const describe = (c) => {
    const card = by("card"), m = c.more || {}, name = nameOf(c);
    card.replaceChildren(make("h2", name));
    card.append(facts([["stored as", data.types[c.type]], ["shape", data.shapes[c.shape].join(" × ") || "a single number"]]));
    if (m.why) card.append(make("p", m.why));
    if (m.bins) card.append(histogram(m.bins));
    if (c.rms !== null) {
      card.append(facts([
        ["RMS", exact(c.rms)], ["least", m.min === undefined ? null : exact(m.min)], ["greatest", m.max === undefined ? null : exact(m.max)],
        ["mean", m.mean === undefined ? null : exact(m.mean)], ["largest ÷ RMS", exact(c.peak)], ["kurtosis (normal: 3)", m.kurtosis === undefined ? null : exact(m.kurtosis)],
        ["zeros", m.zeros ? m.zeros.toLocaleString("en") + " of " + m.count.toLocaleString("en") : null], ["NaN or infinite", m.non_finite ? m.non_finite.toLocaleString("en") : null],
        ["Q4_0 changes", c.q4 === null ? null : percent(c.q4)], ["Q8_0 changes", c.q8 === null ? null : percent(c.q8)],
      ]));
    }
    if (c.status) {
      card.append(make("h3", "Against the other model"));
      card.append(facts([
        ["", words[c.status]], ["difference ÷ size", c.status === "changed" && c.relative !== null ? percent(c.relative) : null], ["numbers that changed", c.status === "changed" ? percent(c.part) : null],
        ["rank of the difference", c.rank ? (c.rank >= 24 ? "24 or more" : c.counted ? c.counted + " (effective " + c.rank.toFixed(1) + ")" : "effective " + c.rank.toFixed(1)) : null], ["largest difference", m.largest ? exact(m.largest) : null],
        ["NaN or infinite in one", m.odd ? m.odd.toLocaleString("en") : null],
      ]));
    }
    card.append(...lines("Largest columns, by the median", m.columns), ...lines("Largest rows, by the median", m.rows));
    card.append(make("h3", "Look closer"));
    card.append(make("code", "tensorfs stat " + quoted(data.path) + " " + quoted(name)));
    if (data.otherPath) card.append(make("code", "tensorfs diff " + quoted(data.path) + " " + quoted(data.otherPath) + " " + quoted(name)));
  };
  const choose = (c, focus) => {
    if (current) { cells.get(current).setAttribute("aria-current", "false"); cells.get(current).tabIndex = -1; }
    current = c;
    const e = cells.get(c);
    e.setAttribute("aria-current", "true");
    e.tabIndex = 0;
    if (focus) { e.focus({ preventScroll: true }); e.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    describe(c);
  };
  const step = (dx, dy) => {
    if (!current || current.layer < 0) return;
    let k = data.order.indexOf(current.kind), l = current.layer;
    for (;;) {
      k += dy; l += dx;
      if (k < 0 || k >= data.order.length || l < 0 || l >= data.layers) return;
      const c = place.get(data.order[k] + ":" + l);
      if (c) { choose(c, true); return; }
    }
  };
  map.addEventListener("keydown", (e) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (move) { e.preventDefault(); step(...move); }
    if (e.key === "Enter") by("card").scrollIntoView({ block: "nearest" });
  });

  document.title = data.title;
  by("title").textContent = data.title;
  for (const f of data.facts) by("facts").append(make("p", f));
  for (const m of data.metadata || []) {
    const row = make("tr");
    row.append(make("th", m.key, { scope: "row" }), make("td", m.type), make("td", m.value));
    by("entries").append(row);
    by("metadata").hidden = false;
  }
  const list = by("list"), named = new Map(data.cells.map((c) => [nameOf(c), c]));
  for (const f of data.findings) {
    const b = make("button", f.text, { type: "button" });
    b.addEventListener("click", () => { const c = named.get(f.cell); if (c) choose(c, true); });
    const li = make("li");
    li.append(b);
    list.append(li);
  }
  if (!data.findings.length) list.replaceWith(make("p", "Nothing stands out."));
  for (const t of tabs) {
    const b = make("button", t.label, { type: "button" });
    b.addEventListener("click", () => { tab = t; together = Boolean(t.all); paint(); });
    by("tabs").append(b);
  }
  for (const [label, all] of [["scale: per kind", false], ["all", true]]) {
    const b = make("button", label, { type: "button", "data-all": all ? "1" : "0" });
    b.addEventListener("click", () => { together = all; paint(); });
    by("scales").append(b);
  }
  build();
  // The card is below a map that has no room beside it.
  const main = document.querySelector("main");
  const placeCard = () => {
    main.classList.remove("wide");
    main.classList.toggle("wide", map.scrollWidth > map.clientWidth);
  };
  paint();
  placeCard();
  window.addEventListener("resize", placeCard);
  const first = named.get((data.findings.find((f) => named.has(f.cell)) || {}).cell) || data.cells[0];
  if (first) choose(first, false);
  document.documentElement.dataset.ready = "1";
})();
