"use strict";
// The interactive plot: rungs against size, from RESULTS and from files that the reader drops.

(() => {
  const COLORS = ["#3b7dd8", "#d9822b", "#2f9e66", "#8a4fd0", "#d1495b", "#0f9aa8", "#a07b00", "#7a7f87"];
  const byId = (id) => document.getElementById(id);
  let rows = RESULTS.rows.slice(), chosen = new Set(), chart = null;

  const unique = (values) => [...new Set(values)];
  const idOf = (name) => name.split("_")[0].replace(/^v0+(?=\d)/, "v");
  const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  // A file of Google Benchmark's, as gemm_bench writes it.
  function parse(text, name) {
    const data = JSON.parse(text);
    if (!Array.isArray(data.benchmarks)) throw new Error("no benchmarks in it");
    const gpu = `${data.context?.gpu ?? "unknown GPU"} (${name})`;
    const read = [];
    for (const b of data.benchmarks) {
      const [rung, dtype, op] = String(b.name).split("/");
      if (b.run_type === "aggregate" || !(b.TFLOPS > 0) || op !== "nn" || b.m !== b.n || b.m !== b.k) continue;
      read.push({gpu, rung, dtype, m: b.m, n: b.n, k: b.k, tflops: b.TFLOPS, p10: b.TFLOPS_p10 ?? b.TFLOPS,
                 p90: b.TFLOPS_p90 ?? b.TFLOPS, baseline: b.baseline_TFLOPS ?? NaN, ratio: b.ratio ?? NaN});
    }
    if (!read.length) throw new Error("no timed square problem in layout nn in it");
    return read;
  }

  function options(select, values, wanted) {
    select.replaceChildren(...values.map((value) => new Option(value, value)));
    if (values.includes(wanted)) select.value = wanted;
  }

  const visible = () => rows.filter((r) => r.dtype === byId("plot-dtype").value && shownGpus().includes(r.gpu));
  // A file that was dropped is shown beside the GPU chosen.
  const shownGpus = () => unique([byId("plot-gpu").value, ...rows.filter((r) => r.own).map((r) => r.gpu)]);

  function fillRungs() {
    const names = unique(visible().map((r) => r.rung)).sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
    byId("plot-rungs").replaceChildren(...names.map((name) => {
      const box = document.createElement("input"), label = document.createElement("label");
      box.type = "checkbox";
      box.value = name;
      box.checked = chosen.has(name);
      box.addEventListener("change", () => { box.checked ? chosen.add(name) : chosen.delete(name); draw(); });
      label.title = RESULTS.ideas[name] ?? name;
      label.append(box, ` ${idOf(name)}`);
      return label;
    }));
    if (!names.some((name) => chosen.has(name))) {
      chosen = new Set(names.slice(-4));
      byId("plot-rungs").querySelectorAll("input").forEach((box) => { box.checked = chosen.has(box.value); });
    }
  }

  function draw() {
    const unit = byId("plot-unit").value, datasets = [];
    const data = visible();
    const names = unique(data.map((r) => r.rung)).filter((name) => chosen.has(name));
    for (const gpu of shownGpus())
      for (const name of names) {
        const all = data.filter((r) => r.rung === name && r.gpu === gpu && Number.isFinite(r[unit])).sort((a, b) => a.m - b.m)
          .map((r) => ({x: r.m, y: r[unit], row: r}));
        const points = all.filter((p) => p.x % 64 === 0), odd = all.filter((p) => p.x % 64 !== 0);
        const color = COLORS[names.indexOf(name) % COLORS.length];
        if (points.length)
          datasets.push({label: idOf(name) + (gpu === byId("plot-gpu").value ? "" : `, ${gpu}`), data: points, borderColor: color,
                         backgroundColor: color, borderWidth: 2, pointRadius: 3,
                         borderDash: gpu === byId("plot-gpu").value ? [] : [6, 4]});
        // Unaligned rows are another story: points, in no line.
        if (odd.length && byId("plot-odd").checked)
          datasets.push({label: `${idOf(name)}, odd sizes`, data: odd, borderColor: color, backgroundColor: color, showLine: false,
                         pointStyle: "rectRot", pointRadius: 6});
      }
    const sizes = unique(data.map((r) => r.m)).filter((m) => m % 64 === 0).sort((a, b) => a - b);
    const cublas = unit === "ratio"
      ? sizes.map((x) => ({x, y: 1}))
      : sizes.map((x) => ({x, y: Math.max(...data.filter((r) => r.m === x && r.gpu === byId("plot-gpu").value).map((r) => r.baseline))}));
    datasets.push({label: "cuBLAS", data: cublas.filter((p) => Number.isFinite(p.y)), borderColor: css("--md-default-fg-color--light"), borderWidth: 1.5,
                   backgroundColor: "transparent", pointRadius: 0, borderDash: [2, 3]});
    const text = css("--md-default-fg-color"), grid = css("--md-default-fg-color--lightest");
    const axis = (title, more) => ({title: {display: true, text: title, color: text}, ticks: {color: text}, grid: {color: grid}, ...more});
    chart?.destroy();
    chart = new Chart(byId("plot"), {
      type: "line",
      data: {datasets},
      options: {
        animation: false, maintainAspectRatio: false, interaction: {mode: "nearest", intersect: false},
        scales: {x: axis("M = N = K", {type: "logarithmic", ticks: {color: text, callback: (v) => (sizes.includes(v) && Number.isInteger(Math.log2(v)) ? v : null)},
                                       afterBuildTicks: (scale) => { scale.ticks = sizes.filter((s) => Number.isInteger(Math.log2(s))).map((value) => ({value})); }}),
                 y: axis(unit === "ratio" ? "speed over cuBLAS's" : "TFLOPS", {beginAtZero: true})},
        plugins: {legend: {labels: {color: text}},
                  tooltip: {callbacks: {label: (item) => {
                    const r = item.raw.row;
                    return r ? `${item.dataset.label}: ${r.tflops.toFixed(1)} TFLOPS (p10 ${r.p10.toFixed(1)}, p90 ${r.p90.toFixed(1)}), ratio ${r.ratio.toFixed(3)}` : "cuBLAS";
                  }}}},
      },
    });
    window.PLOT = chart;
  }

  function update(wantedDtype) {
    const gpu = byId("plot-gpu").value;
    options(byId("plot-dtype"), unique(rows.filter((r) => r.gpu === gpu || r.own).map((r) => r.dtype)), wantedDtype ?? byId("plot-dtype").value);
    fillRungs();
    draw();
  }

  function take(file) {
    file.text().then((text) => {
      const read = parse(text, file.name).map((r) => ({...r, own: true}));
      rows = rows.concat(read);
      chosen = new Set([...chosen, ...read.map((r) => r.rung)]);
      update(read[0].dtype);
      byId("plot-told").textContent = `${file.name}: ${read.length} results, drawn dashed.`;
    }).catch((error) => { byId("plot-told").textContent = `${file.name} cannot be drawn: ${error.message}.`; });
  }

  function start() {
    const wanted = new URLSearchParams(location.search);
    options(byId("plot-gpu"), unique(rows.map((r) => r.gpu)));
    const ids = (wanted.get("rungs") ?? "").split(",");
    chosen = new Set(rows.map((r) => r.rung).filter((name) => ids.includes(idOf(name))));
    if (wanted.get("unit") === "tflops") byId("plot-unit").value = "tflops";
    update(wanted.get("dtype") ?? "f16");
    byId("plot-gpu").addEventListener("change", () => update());
    byId("plot-dtype").addEventListener("change", () => update());
    byId("plot-unit").addEventListener("change", draw);
    byId("plot-odd").addEventListener("change", draw);
    byId("plot-none").addEventListener("click", () => {
      chosen.clear();
      byId("plot-rungs").querySelectorAll("input").forEach((box) => { box.checked = false; });
      draw();
    });
    byId("plot-link").addEventListener("click", () => {
      const link = new URLSearchParams({rungs: [...chosen].map(idOf).join(), dtype: byId("plot-dtype").value, unit: byId("plot-unit").value});
      history.replaceState(null, "", `?${link}`);
      byId("plot-told").textContent = "The address bar has the link.";
    });
    const drop = byId("drop");
    byId("plot-file").addEventListener("change", (event) => [...event.target.files].forEach(take));
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => { event.preventDefault(); drop.classList.remove("over"); [...event.dataTransfer.files].forEach(take); });
    // Colours follow the site's theme.
    new MutationObserver(draw).observe(document.body, {attributes: true, attributeFilter: ["data-md-color-scheme"]});
  }

  start();
})();
