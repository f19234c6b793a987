// The five figures, drawn from the data of the page for what the controls choose.

const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const shapes = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"];
const colors = ["accent", "warn", "good", "other", "observed"];
const eventNames = {
  knot_search: "knot search",
  refit: "refit",
  rebuild: "rebuild",
  fallback: "fallback to a rebuild",
};
const eventShapes = {
  knot_search: "triangle-down",
  refit: "line-ns-open",
  rebuild: "square-open",
  fallback: "x-open",
};

const axis = (color, more) => ({
  gridcolor: color.line,
  linecolor: color.line,
  zerolinecolor: color.muted,
  tickcolor: color.line,
  automargin: true,
  tickangle: 0,
  ...more,
  title: { text: more.title, standoff: 8, font: { size: 12 } },
});

const chosen = () => {
  const worker = data.workers[selects.worker.value];
  const kind = selects.kind.value;
  const fit = worker.fits[selects.fit.value];
  const of = worker.kinds.indexOf(kind);
  const isIn = (index) => kind === "all" || worker.points.kind[index] === of;
  const all = worker.points.row.map((_, index) => index).filter(isIn);
  return { worker, kind, fit, isIn, all, name: fits[selects.fit.value] };
};
const told = (number) => number.toLocaleString("en");
const at = (values, indices) => indices.map((index) => values[index]);

const drawCourse = () => {
  const { worker, kind, fit, isIn, all, name } = chosen();
  const color = theme();
  const { row, observed_ms } = worker.points;
  const warming = new Set(worker.warming_up);
  const answered = all.filter((index) => fit.predicted_ms[index] !== null);
  const abstained = Object.entries(fit.abstentions).flatMap(([reason, indices]) =>
    indices.filter(isIn).map((index) => [index, reason]),
  );
  const traces = [];
  const points = (label, indices, values, marker, more = {}) =>
    indices.length &&
    traces.push({
      type: "scatter",
      mode: "markers",
      name: label,
      x: at(row, indices),
      y: at(values, indices),
      marker,
      hovertemplate: `row %{x}<br>${escaped(label)}: %{y:.4g} ms<extra></extra>`,
      ...more,
    });
  // Intervals of different work side by side would be a thicket.
  if ((kind !== "all" || worker.kinds.length === 1) && fit.interval_ms) {
    const known = all.filter((index) => fit.interval_ms[index]);
    const edge = (side, more) => ({
      type: "scatter",
      mode: "lines",
      x: at(row, known),
      y: known.map((index) => fit.interval_ms[index][side]),
      line: { width: 0, shape: "hvh" },
      hoverinfo: "skip",
      ...more,
    });
    if (known.length > 1) {
      traces.push(edge(0, { showlegend: false }));
      const fillcolor = `${color.accent}2e`;
      traces.push(edge(1, { fill: "tonexty", fillcolor, name: "interval" }));
    }
  }
  const symbols = (indices, cold, warm) =>
    indices.map((index) => (warming.has(index) ? cold : warm));
  points("observed", all, observed_ms, {
    symbol: symbols(all, "circle-open", "circle"),
    size: 4,
    color: color.observed,
  });
  points("predicted", answered, fit.predicted_ms, {
    symbol: "line-ew-open",
    size: 6,
    color: color.accent,
    opacity: 0.8,
    line: { width: 1.6, color: color.accent },
  });
  points("spike", worker.spikes.filter(isIn), observed_ms, {
    symbol: "triangle-up-open",
    size: 11,
    color: color.warn,
    line: { width: 1.8 },
  });
  // Worst first; of few rows, not every second one.
  const warm = all.filter((index) => !warming.has(index)).length;
  const worst = fit.worst.filter(isIn).slice(0, Math.max(3, Math.ceil(warm / 20)));
  points("worst", worst, observed_ms, {
    symbol: "diamond-open",
    size: 9,
    color: color.other,
    line: { width: 1.3 },
  });
  points(
    "abstained",
    abstained.map(([index]) => index),
    observed_ms,
    { symbol: "x-thin-open", size: 8, color: color.ink, line: { width: 1.4 } },
    {
      text: abstained.map(([, reason]) => data.reasons[reason] || reason.replaceAll("_", " ")),
      hovertemplate: "row %{x}<br>no forecast: %{text}<extra></extra>",
    },
  );
  const events = Object.entries(fit.events);
  events.forEach(([sort, event]) =>
    traces.push({
      type: "scatter",
      mode: "markers",
      name: eventNames[sort],
      x: event.rows,
      y: event.rows.map(() => eventNames[sort]),
      yaxis: "y2",
      showlegend: false,
      marker: { symbol: eventShapes[sort], size: 8, color: color.good, line: { width: 1.3 } },
      hovertemplate: `row %{x}<br>${eventNames[sort]}<extra></extra>`,
    }),
  );
  // The axis is that of latencies: the far end of an interval may be a hundred times as far.
  const isLog = byId("log").checked;
  const predicted = at(fit.predicted_ms, answered).filter((ms) => ms > 0);
  const latencies = [...at(observed_ms, all), ...predicted];
  const least = latencies.reduce((one, other) => Math.min(one, other));
  const most = latencies.reduce((one, other) => Math.max(one, other));
  const pad = 0.02 + 0.04 * Math.log10(most / least);
  // Over decades, not every digit has room for its tick.
  const isLong = isLog && most > 20 * least;
  const lanes = events.length ? 0.05 + 0.055 * events.length : 0;
  const share = narrow.matches ? 1.25 : 1;
  draw("course", traces, {
    xaxis: axis(color, {
      title: "row of the trace",
      anchor: events.length ? "y2" : "y",
      zeroline: false,
    }),
    yaxis: axis(color, {
      title: "latency, ms",
      type: isLog ? "log" : "linear",
      range: isLog ? [Math.log10(least) - pad, Math.log10(most) + pad] : [0, 1.04 * most],
      ...(isLog && { tickformat: "~g" }),
      ...(isLong && { dtick: "D2" }),
      domain: [lanes * share + (lanes ? 0.02 : 0), 1],
    }),
    ...(events.length && {
      yaxis2: axis(color, {
        title: "",
        type: "category",
        domain: [0, lanes * share],
        fixedrange: true,
        range: [-0.6, events.length - 0.4],
        ...(narrow.matches && {
          tickvals: events.map(([sort]) => eventNames[sort]),
          ticktext: events.map(([sort]) => eventNames[sort].split(" ")[0]),
        }),
      }),
    }),
    uirevision: `${selects.worker.value}/${kind}/${isLog}`,
  });
  byId("told-thinning").textContent = data.thinning[selects.worker.value];
  const level = `${Math.round(data.interval_level * 100)} %`;
  byId("told-course").textContent = [
    traces.some((trace) => trace.fill) ? `The shade is the ${level} interval.` : "",
    toldAbstentions(fit, name),
    toldEvents(events),
  ].join(" ");
};

const toldAbstentions = (fit, name) => {
  const counts = Object.entries(fit.abstained).map(([reason, count]) => {
    const drawn = (fit.abstentions[reason] || []).length;
    const some = drawn < count ? ` (${told(drawn)} of them drawn)` : "";
    return `${told(count)} ${reason.replaceAll("_", " ")}${some}`;
  });
  if (!counts.length) return `${name} never abstained.`;
  return `Abstentions of ${name}, by reason: ${counts.join(", ")}.`;
};

const toldEvents = (events) => {
  const did = events.map(([sort, { count, rows }]) => {
    // Where there are too many, every second mark goes, and again.
    const every = 2 ** Math.ceil(Math.log2(count / rows.length));
    const some = every > 1 ? ` (one mark in ${told(every)} is drawn)` : "";
    return `${eventNames[sort]} ${told(count)} times${some}`;
  });
  if (!did.length) return "";
  return `Below the latencies: what was done to the fit, and when: ${did.join(", ")}.`;
};

const loads = {
  attention: ["attention load", "KV tokens and query-key pairs"],
  ffn: ["FFN load", "tokens"],
};

const drawLoad = (name, column) => {
  const { worker, kind, fit, all, name: fitName } = chosen();
  const color = theme();
  const warming = new Set(worker.warming_up);
  const values = fit.features ? fit.features.map((pair) => pair[column]) : worker.points[name];
  const drawn = all.filter((index) => !warming.has(index) && fit.error_pct[index] !== null);
  const [load, unit] = loads[name];
  byId("plot-ffn").parentElement.hidden = !drawn.length;
  if (!drawn.length) return say(name, "No row of these counts towards accuracy: there is no error to draw.");
  const loadsDrawn = at(values, drawn);
  const least = loadsDrawn.reduce((one, other) => Math.min(one, other));
  const isWide = least > 0 && loadsDrawn.some((load) => load > 50 * least);
  const most = Math.max(60, 1.15 * (data.p99_pct[fitName][kind] || 0));
  const kinds = worker.kinds.filter((of) => kind === "all" || kind === of);
  const traces = [];
  const medians = [];
  const shapesDrawn = [];
  kinds.forEach((of) => {
    const place = worker.kinds.indexOf(of);
    const indices = drawn.filter((index) => worker.points.kind[index] === place);
    if (!indices.length) return;
    const own = color[colors[place % colors.length]];
    traces.push({
      type: "scatter",
      mode: "markers",
      name: kindName(of),
      x: at(values, indices),
      y: at(fit.error_pct, indices),
      customdata: at(worker.points.row, indices),
      marker: { symbol: shapes[place], size: 4.5, color: own, opacity: 0.5 },
      hovertemplate: `row %{customdata}<br>${load} %{x:.4g}<br>error %{y:+.1f} %<extra></extra>`,
    });
    const bins = (fit.load[of] || [[], []])[column];
    const median = (line) => ({
      type: "scatter",
      mode: "lines+markers",
      showlegend: false,
      x: bins.flatMap((bin) => [bin.from, bin.to]),
      y: bins.flatMap((bin) => [bin.median_pct, bin.median_pct]),
      marker: { size: 3, color: line.color },
      line,
      hovertemplate: `median error %{y:+.1f} %<extra>${escaped(kindName(of))}</extra>`,
    });
    medians.push(median({ width: 7, color: color.paper }));
    medians.push(median({ width: 2.5, color: own, dash: dashes[place] }));
    const knots = (fit.knots[of] || [[], []])[column];
    knots.forEach((knot) =>
      shapesDrawn.push({
        type: "line",
        x0: knot,
        x1: knot,
        yref: "paper",
        y0: 0,
        y1: 1,
        line: { width: 1.4, dash: dashes[(place + 1) % dashes.length], color: own },
      }),
    );
  });
  draw(name, [...traces, ...medians], {
    xaxis: axis(color, {
      title: `${load}: ${fit.features ? "weighted " : ""}${unit}`,
      type: isWide ? "log" : "linear",
      dtick: isWide ? 1 : undefined,
      zeroline: false,
    }),
    yaxis: axis(color, { title: "error, %", range: [-Math.min(most, 105), most] }),
    shapes: shapesDrawn,
    uirevision: `${selects.worker.value}/${kind}/${fitName}`,
  });
  const beyond = drawn.filter(
    (index) => fit.error_pct[index] > most || fit.error_pct[index] < -Math.min(most, 105),
  ).length;
  byId(`caption-${name}`).textContent =
    `Errors of ${fitName}, work: ${kindName(kind)}.` +
    (beyond ? ` ${told(beyond)} rows lie beyond the axis; zoom out to see them.` : "") +
    (shapesDrawn.length ? " Uprights are the knots at the end of the trace." : "");
};

const drawByFit = (name, points, layout, empty) => {
  const color = theme();
  const kind = selects.kind.value;
  const traces = data.fits.flatMap((fit, index) => {
    const { x, y, text } = points(fit, kind);
    return x.length
      ? {
          type: "scatter",
          mode: layout.mode,
          name: fit.fit.length > 24 ? `${fit.fit.slice(0, 23)}\u2026` : fit.fit,
          x,
          y,
          text,
          line: {
            width: data.baselines.includes(fit.fit) ? 1.5 : 2.6,
            dash: dashes[index % dashes.length],
            color: color[colors[index % colors.length]],
          },
          marker: { symbol: shapes[index % shapes.length], size: 8 },
          hovertemplate: layout.hover.replace("FIT", escaped(fit.fit)),
        }
      : [];
  });
  if (!traces.length) return say(name, empty);
  draw(name, traces, {
    xaxis: axis(color, layout.x),
    yaxis: axis(color, layout.y),
    uirevision: kind,
  });
};

const leastError = 0.01; // percent; what is less is as good
const drawDistribution = () => {
  const points = (fit, kind) => {
    const sizes = fit.distribution_pct[kind] || [];
    const finite = sizes.map((_, index) => index).filter((index) => sizes[index] !== null);
    const x = at(sizes, finite).map((size) => Math.max(size, leastError));
    return { x, y: at(data.shares_pct, finite) };
  };
  const most = Math.max(1, ...data.fits.flatMap((fit) => points(fit, selects.kind.value).x));
  drawByFit(
    "distribution",
    points,
    {
      mode: "lines",
      x: {
        title: "error at most, %",
        type: "log",
        range: [Math.log10(leastError), Math.log10(1.2 * most)],
        dtick: narrow.matches ? 2 : 1,
        exponentformat: "none",
        separatethousands: true,
      },
      y: { title: "share of answered rows, %", range: [0, 101] },
      hover: "%{y:.3g} % of rows within %{x:.3g} %<extra>FIT</extra>",
    },
    "No row counts towards accuracy: there is no distribution to draw.",
  );
};

const coldTicks = [1, 2, 5, 10, 20, 64, 200, 1000];
const drawCold = () =>
  drawByFit(
    "cold",
    (fit, kind) => {
      const known = (fit.cold_start[kind] || []).filter((entry) => entry.mape_pct !== null);
      return {
        x: known.map((entry) => entry.first),
        y: known.map((entry) => entry.mape_pct),
        text: known.map((entry) => `${entry.answered} of ${entry.rows} rows answered`),
      };
    },
    {
      mode: "lines+markers",
      x: {
        title: "first rows",
        type: "log",
        tickvals: coldTicks,
        ticktext: coldTicks.map(told),
      },
      y: { title: "mean error, %", rangemode: "tozero" },
      hover: "first %{x} rows: %{y:.3g} %<br>%{text}<extra>FIT</extra>",
    },
    "No row was answered: there is no error to draw.",
  );

const drawAll = () => {
  if (data.workers.length) {
    drawCourse();
    drawLoad("attention", 0);
    drawLoad("ffn", 1);
  } else {
    byId("plot-ffn").parentElement.hidden = true;
    for (const name of plots.slice(0, 3)) say(name, "No row with work and a latency: nothing to draw.");
  }
  drawDistribution();
  drawCold();
  document.documentElement.dataset.drawn = "yes";
};
