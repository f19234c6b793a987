// What the page does besides drawing: tables that sort, controls, themes, and plotly unpacked.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("report-data").textContent);
const plots = ["course", "attention", "ffn", "distribution", "cold"];
const touch = matchMedia("(pointer: coarse)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const upright = matchMedia("(orientation: portrait)");
const narrow = matchMedia("(max-width: 40rem)");

// Tables: a click sorts, worst (greatest) first, another one turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const body = table.tBodies[0];
      const value = (row) => row.cells[column].dataset.value;
      const numeric = [...body.rows].every((row) => value(row) === "" || !isNaN(value(row)));
      const first = numeric ? "descending" : "ascending";
      const other = numeric ? "ascending" : "descending";
      const order = before === first ? other : first;
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((one, two) => {
        const [a, b] = [value(one), value(two)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return sign * (numeric ? a - b : a < b ? -1 : a > b ? 1 : 0);
      });
      heads.forEach((cell) => cell.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      body.append(...rows);
    });
  });
}

const options = (select, texts) => {
  texts.forEach(([value, text]) => select.add(new Option(text, value)));
  select.disabled = texts.length < 2;
};
const kindName = (kind) => data.kinds[kind] || kind;
const fits = data.fits.map((fit) => fit.fit);
const selects = { worker: byId("worker"), kind: byId("kind"), fit: byId("fit") };
options(
  selects.worker,
  data.workers.map(({ input, worker_id, timing_scope }, index) => [
    index,
    [data.names[input], worker_id, timing_scope].filter(Boolean).join(" \u00b7 "),
  ]),
);
options(selects.fit, fits.map((fit, index) => [index, fit]));
const preferred = fits.map((fit) => data.baselines.includes(fit)).lastIndexOf(false);
selects.fit.value = Math.max(preferred, 0);
const offerKinds = () => {
  const before = selects.kind.value;
  const kinds = data.workers.length ? data.workers[selects.worker.value].kinds : [];
  selects.kind.replaceChildren();
  options(selects.kind, ["all", ...kinds].map((kind) => [kind, kindName(kind)]));
  selects.kind.disabled = kinds.length < 2;
  selects.kind.value = kinds.includes(before) ? before : "all";
};
offerKinds();
byId("controls").hidden = !data.workers.length;

const say = (name, text) => {
  const message = document.createElement("div");
  message.className = "message";
  message.textContent = text;
  const plot = byId(`plot-${name}`);
  plot.classList.toggle("empty", Boolean(window.Plotly));
  if (window.Plotly && plot.data) Plotly.purge(plot);
  plot.replaceChildren(message);
};

const theme = () => {
  const style = getComputedStyle(document.documentElement);
  return new Proxy({}, { get: (_, name) => style.getPropertyValue(`--${name}`).trim() });
};
const escaped = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// Entries of a legend share one width; it stands above the plot, below the buttons on a phone.
const entrySpace = 45;
const entryHeight = 19;
const brush = document.createElement("canvas").getContext("2d");
const legendOf = (traces, font, width) => {
  brush.font = `${font.size}px ${font.family}`;
  const texts = traces.filter((trace) => trace.showlegend !== false).map((trace) => trace.name);
  const widest = Math.ceil(Math.max(0, ...texts.map((text) => brush.measureText(text).width)));
  const columns = Math.max(1, Math.floor(width / (widest + entrySpace)));
  return { entrywidth: widest, rows: Math.ceil(texts.length / columns) };
};

const draw = (name, traces, layout) => {
  const color = theme();
  const plot = byId(`plot-${name}`);
  plot.classList.remove("empty");
  if (plot.firstChild && plot.firstChild.className === "message") plot.replaceChildren();
  const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: color.ink };
  const small = { ...font, size: narrow.matches ? 11 : 12 };
  const sides = { l: 62, r: 12 };
  const { entrywidth, rows } = legendOf(traces, small, plot.clientWidth - sides.l - sides.r);
  const buttons = touch.matches ? 36 : 14;
  Plotly.react(
    plot,
    traces,
    {
      paper_bgcolor: color.paper,
      plot_bgcolor: color.paper,
      font,
      margin: { ...sides, t: buttons + 8 + entryHeight * rows, b: 40 },
      dragmode: touch.matches ? false : "zoom",
      hovermode: "closest",
      hoverlabel: { bgcolor: color.raised, bordercolor: color.line, font: { color: color.ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color.muted, activecolor: color.accent },
      legend: {
        orientation: "h",
        traceorder: "normal",
        x: 0,
        y: 1.01,
        yanchor: "bottom",
        font: small,
        entrywidth,
      },
      ...layout,
    },
    {
      responsive: true,
      displaylogo: false,
      displayModeBar: touch.matches ? true : "hover",
      modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "resetScale2d", "toImage"]],
    },
  );
};

const unpacked = async () => {
  if (typeof DecompressionStream !== "function") {
    throw new Error(
      "This browser cannot unpack the figures: it takes Chrome or Edge 85, Firefox 113, Safari " +
        "16.4, or newer. The tables are complete without them.",
    );
  }
  const packed = Uint8Array.from(atob(byId("plotly-packed").textContent), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  if (!window.Plotly) throw new Error("The figures could not be unpacked: the page is damaged.");
};

plots.forEach((name) => say(name, "Unpacking the figure\u2026"));
unpacked().then(
  () => {
    drawAll();
    selects.worker.addEventListener("change", () => {
      offerKinds();
      drawAll();
    });
    for (const control of [selects.kind, selects.fit, byId("log")]) {
      control.addEventListener("change", drawAll);
    }
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const media of [dark, narrow, touch, upright]) media.addEventListener("change", drawAll);
  },
  (error) => plots.forEach((name) => say(name, error.message)),
);
