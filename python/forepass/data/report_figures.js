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
      traces.push(edge(0, { showlegend: false, legendgroup: "interval" }));
      traces.push(
        edge(1, {
          fill: "tonexty",
          fillcolor: `${color.accent}2e`,
          legendgroup: "interval",
          name: `${Math.round(data.interval_level * 100)} % interval`,
        }),
      );
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
  points("worst error", fit.worst.filter(isIn), observed_ms, {
    symbol: "diamond-open",
    size: 9,
    color: color.other,
    line: { width: 1.3 },
  });
  points(
    "no forecast",
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
  // Over decades, not every digit has room for its tick.
  const latencies = at(observed_ms, all);
  const isLong = byId("log").checked && Math.max(...latencies) > 20 * Math.min(...latencies);
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
      type: byId("log").checked ? "log" : "linear",
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
        tickfont: { size: narrow.matches ? 10 : 12 },
      }),
    }),
    uirevision: `${selects.worker.value}/${kind}`,
  });
  const counts = Object.entries(fit.abstained)
    .map(([reason, count]) => `${count.toLocaleString("en")} ${reason.replaceAll("_", " ")}`)
    .join(", ");
  const did = events.map(([sort, of]) => `${eventNames[sort]} ${of.count.toLocaleString("en")} times`);
  byId("told-course").textContent =
    (counts ? `Abstentions of ${name}, by reason: ${counts}.` : `${name} never abstained.`) +
    (did.length ? ` Events: ${did.join(", ")}.` : "");
};

const drawLoad = (name, column) => {
  const { worker, kind, fit, all, name: fitName } = chosen();
  const color = theme();
  const warming = new Set(worker.warming_up);
  const loads = fit.features ? fit.features.map((pair) => pair[column]) : worker.points[name];
  const drawn = all.filter((index) => !warming.has(index) && fit.error_pct[index] !== null);
  const title = name === "ffn" ? "FFN feature" : "attention feature";
  if (!drawn.length) {
    say(name, "No row of these counts towards accuracy: there is no error to draw.");
    byId(`caption-${name}`).textContent = "";
    return;
  }
  const loadsDrawn = at(loads, drawn);
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
      legendgroup: of,
      x: at(loads, indices),
      y: at(fit.error_pct, indices),
      customdata: at(worker.points.row, indices),
      marker: { symbol: shapes[place], size: 4.5, color: own, opacity: 0.5 },
      hovertemplate: `row %{customdata}<br>${title} %{x:.4g}<br>error %{y:+.1f} %<extra></extra>`,
    });
    const bins = (fit.load[of] || [[], []])[column];
    const median = (line) => ({
      type: "scatter",
      mode: "lines+markers",
      legendgroup: of,
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
      title,
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
    (beyond ? ` ${beyond.toLocaleString("en")} rows lie beyond the axis; zoom out to see them.` : "") +
    (shapesDrawn.length ? "" : ` ${fitName} has no knots here.`);
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
          name: fit.fit,
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
    // On a phone the legend takes a line for two fits, below the buttons.
    ...(touch.matches && {
      margin: { l: 48, r: 12, t: 46 + 19 * Math.ceil(traces.length / 2), b: 40 },
    }),
    uirevision: kind,
  });
};

const drawDistribution = () =>
  drawByFit(
    "distribution",
    (fit, kind) => {
      const sizes = fit.distribution_pct[kind] || [];
      const drawn = sizes.map((size, index) => index).filter((index) => sizes[index] > 0);
      return { x: at(sizes, drawn), y: at(data.shares_pct, drawn) };
    },
    {
      mode: "lines",
      x: { title: "error at most, %", type: "log", dtick: 1 },
      y: { title: "share of answered rows, %", range: [0, 101] },
      hover: "%{y:.3g} % of rows within %{x:.3g} %<extra>FIT</extra>",
    },
    "No row counts towards accuracy: there is no distribution to draw.",
  );

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
        tickvals: [1, 5, 10, 64, 200, 1000],
        ticktext: ["1", "5", "10", "64", "200", "1,000"],
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
    for (const name of plots.slice(0, 3)) say(name, "No row with work and a latency: nothing to draw.");
  }
  drawDistribution();
  drawCold();
  document.documentElement.dataset.drawn = "yes";
};
