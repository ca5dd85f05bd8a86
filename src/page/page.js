"use strict";
// The microscope's page. One Pane shows one inspection: its source with heat, the requests of the
// line chosen, lane by lane, and the timeline of one cluster. What happens in a pane stays in it.

const DATA = JSON.parse(document.getElementById("data").textContent);
const LANES = 32, BANKS = 32, SECTOR = 32;

// A new element: make("p", {class: "faint"}, "text", child, ...).
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "text", "g", "title", "line"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                      : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const digits = new Intl.NumberFormat("en");
const count = (n) => digits.format(n);
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const ratio = (a, b) => (b === 0 ? "-" : (a / b).toFixed(2));
const sameLine = (a, b) => a !== null && b !== null && a[0] === b[0] && a[1] === b[1];
const fileName = (file) => DATA.files[file].path.replace(/.*\//, "");
const placeName = (place) => (place === null ? "an unknown line" : `${fileName(place[0])}:${place[1]}`);
const takesPart = (request, lane) => ((request.lanes >>> lane) & 1) === 1;
const lanesOf = (request) => [...Array(LANES).keys()].filter((lane) => takesPart(request, lane));

// "0-3, 8" of sorted numbers.
function ranges(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length;) {
    let j = i;
    while (j + 1 < numbers.length && numbers[j + 1] === numbers[j] + 1) ++j;
    parts.push(i === j ? `${numbers[i]}` : `${numbers[i]}-${numbers[j]}`);
    i = j + 1;
  }
  return parts.join(", ");
}

// ------------------------------------------------------------------------------- one request

const CELL = 17, LEFT = 74, TOP = 16;

function cell(column, row, span, lanes, title, dimmed) {
  const x = LEFT + column * CELL, y = TOP + row * CELL;
  return make("g", {class: dimmed ? "dim" : ""}, make("title", {}, title),
    make("rect", {class: "cell", x, y, width: span * CELL, height: CELL - 1,
                  style: `fill: var(--lanes-${lanes[0] >> 3})`}),
    make("text", {class: lanes.length === 1 ? "lane" : "lane many", x: x + span * CELL / 2, y: y + 11},
         lanes.length === 1 ? `${lanes[0]}` : `${lanes[0]}+`));
}

function grid(rows, columns) {
  return make("svg", {viewBox: `0 0 ${LEFT + columns * CELL + 2} ${TOP + rows * CELL + 2}`, role: "img"});
}

// Rows are wavefronts, columns banks: which lanes each bank serves.
function drawBanks(request, chosen) {
  const svg = grid(request.passes, BANKS);
  svg.setAttribute("aria-label", `${request.passes} wavefronts over 32 banks`);
  for (let bank = 0; bank < BANKS; bank += 4)
    svg.append(make("text", {class: "axis", x: LEFT + bank * CELL + 2, y: 11}, `bank ${bank}`));
  for (let row = 0; row < request.passes; ++row) {
    svg.append(make("text", {class: "axis", x: 0, y: TOP + row * CELL + 11}, `wavefront ${row}`));
    for (let bank = 0; bank < BANKS; ++bank)
      svg.append(make("rect", {class: "empty", x: LEFT + bank * CELL, y: TOP + row * CELL,
                               width: CELL, height: CELL - 1}));
  }
  const words = new Map();  // "wavefront,bank" -> lanes
  for (const lane of lanesOf(request)) {
    const first = Math.floor(request.offsets[lane] / 4);
    for (let word = 0; word < Math.max(1, request.width / 4); ++word) {
      const bank = (first + word + request.first_bank) % BANKS;
      const key = `${request.wavefronts[lane]},${bank}`;
      if (!words.has(key)) words.set(key, []);
      words.get(key).push(lane);
    }
  }
  for (const [key, lanes] of words) {
    const [row, bank] = key.split(",").map(Number);
    svg.append(cell(bank, row, 1, lanes, `bank ${bank}, wavefront ${row}: lane ${ranges(lanes)}, byte ${request.offsets[lanes[0]]} of ${request.memory}`,
                    chosen >= 0 && chosen !== row));
  }
  return svg;
}

const sectorOf = (offset) => Math.floor(offset / SECTOR);
const sectorsOf = (request) =>
  [...new Set(lanesOf(request).map((lane) => sectorOf(request.offsets[lane])))].sort((a, b) => a - b);

// Where an offset lies in its matrix.
function elementName(inspection, request, offset) {
  const matrix = inspection.matrices.find((m) => m.name === request.memory);
  if (matrix === undefined) return `byte ${offset}`;
  const index = Math.floor(offset / matrix.element), row = Math.floor(index / matrix.ld);
  return `${matrix.name}[${row}][${index - row * matrix.ld}]`;
}

// Rows are the 32-byte sectors that the request touches; what no lane asks for stays empty.
function drawSectors(inspection, request, chosen) {
  const sectors = sectorsOf(request);
  const svg = grid(sectors.length, SECTOR);
  svg.setAttribute("aria-label", `${sectors.length} sectors of 32 bytes`);
  for (let i = 0; i < 32; i += 4)
    svg.append(make("text", {class: "axis", x: LEFT + i * CELL + 2, y: 11}, `byte ${i}`));
  sectors.forEach((sector, row) => {
    svg.append(make("text", {class: "axis", x: 0, y: TOP + row * CELL + 11},
                    elementName(inspection, request, sector * SECTOR)));
    svg.append(make("rect", {class: "empty", x: LEFT, y: TOP + row * CELL, width: SECTOR * CELL, height: CELL - 1}));
    const pieces = new Map();
    for (const lane of lanesOf(request))
      if (sectorOf(request.offsets[lane]) === sector) {
        const at = request.offsets[lane] - sector * SECTOR;
        if (!pieces.has(at)) pieces.set(at, []);
        pieces.get(at).push(lane);
      }
    for (const [at, lanes] of pieces)
      svg.append(cell(at, row, request.width, lanes,
                      `lane ${ranges(lanes)}: ${elementName(inspection, request, request.offsets[lanes[0]])}, ${request.width} bytes`,
                      chosen >= 0 && chosen !== row));
  });
  return svg;
}

// ------------------------------------------------------------------------------- the timeline

const STYLE = {
  global_load: ["load", "load"], shared_load: ["load", "load"], global_store: ["store", "store"],
  shared_store: ["store", "store"], atomic: ["store", "store"], mma: ["mma", "mma, wgmma"],
  wgmma: ["mma", "mma, wgmma"], barrier: ["wait", "wait"], cp_async: ["copy", "copy"],
  tma_load: ["copy", "copy"], tma_store: ["copy", "copy"], cp_async_wait: ["wait", "wait"],
  mbarrier_wait: ["wait", "wait"], tma_wait: ["wait", "wait"], wgmma_wait: ["wait", "wait"],
  named_sync: ["wait", "wait"], cluster_wait: ["wait", "wait"], cp_async_commit: ["signal", "arrive, commit"],
  tma_commit: ["signal", "arrive, commit"], wgmma_commit: ["signal", "arrive, commit"],
  mbarrier_arrive: ["signal", "arrive, commit"], named_arrive: ["signal", "arrive, commit"],
  cluster_arrive: ["signal", "arrive, commit"], mistake: ["cursor", "mistake"],
};

const WORDS = {
  global_load: "loads from global memory", global_store: "stores to global memory",
  shared_load: "loads from shared memory", shared_store: "stores to shared memory", atomic: "atomics",
  mma: "mma", barrier: "__syncthreads", cp_async: "cp.async", cp_async_commit: "commits a group of cp.async",
  cp_async_wait: "waits for cp.async", mbarrier_arrive: "arrives at", mbarrier_wait: "waits for",
  tma_load: "TMA load of", tma_store: "TMA store to", tma_commit: "commits TMA stores",
  tma_wait: "waits for TMA stores", wgmma: "wgmma", wgmma_commit: "commits a group of wgmma",
  wgmma_wait: "waits for wgmma", named_arrive: "arrives at", named_sync: "meets the others at",
  cluster_arrive: "arrives at", cluster_wait: "waits for", mistake: "a mistake:",
};

// The events as objects, warps that do the same joined into rows, and names for the barriers.
class Timeline {
  constructor(raw) {
    this.raw = raw;
    this.events = raw.events.map((values) => {
      const event = Object.fromEntries(raw.columns.map((name, i) => [name, values[i]]));
      event.kind = raw.kinds[event.kind];
      event.rowAt = event.row;  // of a box's first element; `row` is who did it
      return event;
    });
    this.last = Math.max(1, ...this.events.map((e) => Math.max(e.begin + 1, e.end, e.done)),
                         ...raw.barriers.flatMap((b) => b.completed));
    this.rows = this.joinWarps();
    this.nameBarriers();
  }

  joinWarps() {
    const warps = new Map();
    for (const event of this.events) {
      const key = event.cta * 64 + event.warp;
      if (!warps.has(key)) warps.set(key, []);
      warps.get(key).push(event);
    }
    const signature = (events) => events.map((e) => `${e.kind}:${e.line}:${e.count}:${e.phase}`).join();
    const rows = [];
    for (const [key, events] of [...warps].sort((a, b) => a[0] - b[0])) {
      const sign = signature(events), last = rows[rows.length - 1];
      const cta = events[0].cta, warp = events[0].warp;
      if (last && last.sign === sign && last.cta === cta && last.to === warp - 1) last.to = warp;
      else rows.push({cta, from: warp, to: warp, events, sign});
      for (const event of events) event.row = rows[rows.length - 1];
    }
    const producers = rows.filter((r) => r.events.some((e) => e.kind === "tma_load"));
    const consumers = rows.filter((r) => r.events.some((e) => e.kind === "wgmma"));
    for (const row of rows) {
      const loads = producers.includes(row), multiplies = consumers.includes(row);
      row.role = loads && !multiplies ? "producer" : multiplies && !loads && producers.length ? "consumer" : "";
      row.name = (row.from === row.to ? `warp ${row.from}` : `warps ${row.from}-${row.to}`) +
                 (this.raw.ctas > 1 ? `, CTA ${row.cta}` : "");
    }
    return rows;
  }

  // An mbarrier that takes bytes is a "full" one; one that who issues TMA loads waits for, "empty".
  nameBarriers() {
    const producers = new Set(this.rows.filter((r) => r.events.some((e) => e.kind === "tma_load")));
    const sorted = this.raw.barriers.map((barrier, index) => ({...barrier, index}));
    sorted.sort((a, b) => a.cta - b.cta || a.place - b.place);
    const next = {};
    this.barriers = new Map();
    for (const barrier of sorted) {
      let name = {block: "__syncthreads", named: `named barrier ${barrier.place}`, cluster: "cluster barrier"}[barrier.kind];
      if (barrier.kind === "mbarrier") {
        const waited = this.events.some((e) => e.kind === "mbarrier_wait" && e.object === barrier.index && producers.has(e.row));
        const role = barrier.takes_bytes ? "full" : waited ? "empty" : "order";
        const group = `${role}${barrier.cta}`;
        next[group] = (next[group] ?? -1) + 1;
        name = `${role}[${next[group]}]`;
      }
      if (this.raw.ctas > 1 && barrier.cta >= 0) name += ` of CTA ${barrier.cta}`;
      this.barriers.set(barrier.index, {...barrier, name});
    }
  }

  describe(event) {
    const barrier = this.barriers.get(event.object);
    let text = WORDS[event.kind];
    if (["global_load", "global_store", "shared_load", "shared_store", "mma", "wgmma", "cp_async", "atomic"].includes(event.kind))
      text = `${count(event.count)} x ${text}`;
    if (event.kind === "barrier") text += `, phase ${event.phase}`;
    else if (barrier) text += ` ${barrier.name}, phase ${event.phase < 0 ? "before the first" : event.phase} (parity ${event.phase & 1})`;
    if (event.kind === "tma_load" || event.kind === "tma_store")
      text += ` ${event.memory || "memory"}[${event.rowAt}][${event.col}], ${count(event.bytes)} bytes`;
    else if (event.kind === "mbarrier_arrive" && event.bytes) text += `, announcing ${count(event.bytes)} bytes`;
    if (event.kind === "mistake") text += ` ${event.memory}${event.rowAt >= 0 ? `, with warp ${event.rowAt}` : ""}`;
    if (event.end < 0) text += ": never ends";
    return text;
  }
}

// ------------------------------------------------------------------------------- one inspection

class Pane {
  constructor(inspection) {
    this.inspection = inspection;
    this.timeline = new Timeline(inspection.timeline);
    this.chosen = null;      // a place: [file, line]
    this.finding = null;     // the mistake that is shown
    this.file = Math.max(0, inspection.file);
    this.step = 0;
    this.picture = {};       // by access: request, wavefront
    this.view = {from: 0, to: this.timeline.last};
    this.element = make("section", {class: "pane", "data-rung": inspection.id});
    this.element.addEventListener("pointerdown", () => (Pane.active = this));
    this.element.addEventListener("focusin", () => (Pane.active = this));
    this.findPlaces();
    this.build();
    this.choose(this.hottest());
    if (inspection.findings.length) this.showFinding(inspection.findings[0]);
  }

  // What there is at each place: "file,line" -> {passes, accesses, events}.
  findPlaces() {
    this.places = new Map();
    const at = (place) => {
      const key = String(place);
      if (!this.places.has(key)) this.places.set(key, {place, passes: {global: 0, shared: 0}, lines: [], events: []});
      return this.places.get(key);
    };
    this.passes = {global: 0, shared: 0};
    for (const line of this.inspection.lines) {
      this.passes[line.space] += line.passes;
      for (const place of [line.at, line.helper])
        if (place !== null) {
          at(place).passes[line.space] += line.passes;
          at(place).lines.push(line);
        }
    }
    for (const event of this.timeline.events)
      for (const place of [event.line, event.helper]) if (place !== null) at(place).events.push(event);
  }

  // A line's share of the wavefronts or of the sectors, the larger.
  heat(entry) {
    const share = (space) => (this.passes[space] ? entry.passes[space] / this.passes[space] : 0);
    return Math.max(share("global"), share("shared"));
  }

  hottest() {
    const own = [...this.places.values()].filter((entry) => entry.place[0] === this.inspection.file);
    own.sort((a, b) => b.passes.shared - a.passes.shared || b.passes.global - a.passes.global || b.events.length - a.events.length);
    return own.length ? own[0].place : null;
  }

  build() {
    const i = this.inspection, t = i.totals;
    const loads = t.global_loads, stores = t.global_stores, shared = t.shared_loads, written = t.shared_stores;
    const total = (label, value) => make("span", {}, `${label} `, make("b", {}, value));
    this.element.append(
      make("h2", {}, `${i.id}: ${i.idea}${i.variant ? `, ${i.variant}` : ""}`),
      make("p", {class: "faint", style: "margin: 0.1rem 0"}, `${i.dtype} ${i.op}, M x N x K = ${i.shape}; ${i.threads} threads a CTA; ${count(i.traced)} of ${count(i.blocks)} CTAs traced`),
      make("div", {class: "totals"},
        total("sectors a global load", loads.requests ? `${ratio(loads.passes, loads.requests)} (ideal ${ratio(loads.ideal, loads.requests)})` : "-"),
        total("a store", stores.requests ? `${ratio(stores.passes, stores.requests)} (${ratio(stores.ideal, stores.requests)})` : "-"),
        total("bank conflicts: loads", shared.requests ? `x${ratio(shared.passes, shared.ideal)}` : "-"),
        total("stores", written.requests ? `x${ratio(written.passes, written.ideal)}` : "-"),
        total("__syncthreads a CTA", count(i.barriers)),
        total("checks", i.findings.length ? `${i.findings.length} WRONG` : "ok")));
    const findings = i.findings.map((finding) => make("button", {class: "finding", onclick: () => this.showFinding(finding)},
      make("b", {}, `${finding.check}${finding.count > 1 ? ` (${count(finding.count)} times)` : ""}: `), finding.what));
    this.element.append(...findings.slice(0, 2));
    if (findings.length > 2)
      this.element.append(make("details", {}, make("summary", {}, `${findings.length - 2} more`), ...findings.slice(2)));
    this.tabs = make("div", {class: "tabs", role: "group", "aria-label": "files"});
    this.source = make("div", {class: "source", tabindex: "0", role: "listbox", "aria-label": "source"});
    this.detail = make("div", {class: "detail", "aria-live": "polite"});
    this.element.append(make("div", {class: "split"}, make("div", {}, this.tabs, this.source), this.detail));
    this.buildTimeline();
    this.showFile();
  }

  showFile() {
    const used = new Set([this.inspection.file, ...[...this.places.values()].map((p) => p.place[0])]);
    this.tabs.replaceChildren(...[...used].filter((f) => f >= 0).map((file) =>
      make("button", {"aria-pressed": String(file === this.file), onclick: () => { this.file = file; this.showFile(); this.mark(); }}, fileName(file))));
    const wrong = new Set(this.inspection.findings.flatMap((f) => [String(f.line), String(f.other)]));
    this.items = DATA.files[this.file].lines.map((text, index) => {
      const place = [this.file, index + 1], entry = this.places.get(String(place));
      const heat = entry ? this.heat(entry) : 0;
      const label = heat > 0 ? `${(100 * heat).toFixed(heat < 0.1 ? 1 : 0)}%` : entry ? "·" : "";
      return make("li", {class: (entry ? "hot" : "") + (wrong.has(String(place)) ? " wrong" : ""), role: "option",
                         "data-line": index + 1, onclick: entry ? () => this.choose(place) : null},
        make("span", {class: "number"}, `${index + 1}`),
        make("span", {class: "heat", title: entry ? this.heatTitle(entry) : null,
                      style: heat > 0 ? `background: rgba(var(--heat), ${(0.12 + 0.68 * heat).toFixed(2)})` : null}, label),
        make("span", {class: "now"}), make("span", {}, text || " "));
    });
    this.source.replaceChildren(make("ol", {}, ...this.items));
  }

  heatTitle(entry) {
    return `${count(entry.passes.global)} sectors, ${count(entry.passes.shared)} wavefronts, ${entry.events.length} events of the timeline`;
  }

  // Marks the chosen line, and those that run at the cursor.
  mark() {
    const running = new Map();
    for (const row of this.timeline.rows)
      for (const event of this.at(row, this.step))
        for (const place of [event.line, event.helper])
          if (place !== null && place[0] === this.file) running.set(place[1], "▸");
    this.items.forEach((item, index) => {
      const selected = this.chosen !== null && this.chosen[0] === this.file && this.chosen[1] === index + 1;
      const party = this.finding && sameLine(this.finding.other, [this.file, index + 1]);
      item.setAttribute("aria-selected", String(Boolean(selected || party)));
      item.children[2].textContent = running.get(index + 1) ?? "";
    });
  }

  choose(place, finding = null) {
    this.chosen = place;
    this.finding = finding;
    this.picture = {};
    if (place !== null && place[0] !== this.file) {
      this.file = place[0];
      this.showFile();
    }
    this.mark();
    const item = place === null ? null : this.items[place[1] - 1];
    if (item) {
      const top = item.offsetTop - this.source.offsetTop;
      if (top < this.source.scrollTop || top > this.source.scrollTop + this.source.clientHeight - 40)
        this.source.scrollTop = Math.max(0, top - this.source.clientHeight / 3);
    }
    this.showDetail();
    this.draw();
  }

  neighbour(direction) {
    const lines = [...this.places.values()].filter((p) => p.place[0] === this.file).map((p) => p.place[1]).sort((a, b) => a - b);
    const now = this.chosen !== null && this.chosen[0] === this.file ? this.chosen[1] : 0;
    const line = direction > 0 ? lines.find((l) => l > now) : lines.reverse().find((l) => l < now);
    if (line !== undefined) this.choose([this.file, line]);
  }

  // A mistake where it happened: its line and the other party's, and the step in the timeline.
  showFinding(finding) {
    const event = this.timeline.events.find((e) => e.kind === "mistake" && sameLine(e.line, finding.line)) ??
                  (finding.check === "failed" ? this.timeline.events.find((e) => e.end < 0) ?? this.timeline.events.at(-1) : undefined);
    if (event) this.goTo(event.begin);
    this.choose(finding.line ?? (event ? event.line : this.chosen), finding);
  }

  // ---------------------------------------------------------------- the chosen line

  showDetail() {
    const places = this.finding ? [this.finding.line, this.finding.other].filter((p) => p !== null) : [];
    if (!places.length && this.chosen !== null) places.push(this.chosen);
    this.detail.replaceChildren();
    if (this.finding)
      this.detail.append(make("h3", {class: "wrong"}, this.finding.check), make("p", {}, this.finding.what));
    else if (!places.length) this.detail.append(make("p", {class: "faint"}, "Choose a line with heat or a dot."));
    this.accesses = [];
    places.forEach((place, index) => {
      const entry = this.places.get(String(place)) ?? {lines: [], events: []};
      const accesses = this.requestsOf(entry);
      this.accesses.push(...accesses);
      const who = this.finding && places.length > 1 ? ["this access: ", "the other party: "][index] : "";
      this.detail.append(make("div", {class: "place"}, make("h3", {}, who, placeName(place)),
                              ...accesses.map((a) => this.showAccess(a)), this.showEvents(entry.events) ?? ""));
      if (!accesses.length && !entry.events.length)
        this.detail.append(make("p", {class: "faint"}, `CTA ${this.inspection.timeline.block} does not pass here; others do.`));
    });
  }

  // Requests by what they do to which memory.
  requestsOf(entry) {
    const groups = new Map();
    for (const line of entry.lines) {
      const key = `${line.access} ${line.memory} ${line.at} ${line.helper}`;
      groups.set(key, {key, line, requests: []});
    }
    for (const request of this.inspection.requests) {
      const key = `${request.access} ${request.memory} ${request.at} ${request.helper}`;
      if (groups.has(key)) groups.get(key).requests.push(request);
    }
    return [...groups.values()];
  }

  showAccess(access) {
    const {line, requests} = access;
    const state = (this.picture[access.key] ??= {warp: requests.length ? requests[0].warp : 0, nth: 0, pass: -1});
    const passes = line.space === "global" ? "sector" : "wavefront";
    const element = make("div", {class: "access"},
      make("h3", {}, `${line.access} ${line.memory}`, make("span", {class: "faint"}, ` ${line.space} memory`)),
      make("p", {style: "margin: 0"}, `${plural(line.requests, "request")}, ${plural(line.passes, passes)}: ${ratio(line.passes, line.requests)} each, ideal ${ratio(line.ideal, line.requests)}`),
      line.helper !== null && !sameLine(line.helper, this.chosen) ? make("p", {class: "faint", style: "margin: 0"}, `in ${placeName(line.helper)}`) : null);
    if (!requests.length) return element;
    const redraw = () => {
      const fresh = this.showAccess(access);
      element.replaceWith(fresh);
    };
    const warps = [...new Set(requests.map((r) => r.warp))];
    const ofWarp = requests.filter((r) => r.warp === state.warp);
    const request = ofWarp[Math.min(state.nth, ofWarp.length - 1)];
    const rows = line.space === "global" ? sectorsOf(request).length : request.passes;
    access.step = (what, by) => {
      if (what === "pass") state.pass = ((state.pass + 1 + by + rows + 1) % (rows + 1)) - 1;
      else state.nth = Math.min(ofWarp.length - 1, Math.max(0, state.nth + by)), (state.pass = -1);
      redraw();
    };
    const stepper = (what, label, least, now, most) => [
      make("button", {"aria-label": `previous ${what}`, "data-step": `${what}-`, disabled: now <= least, onclick: () => access.step(what, -1)}, "◂"),
      make("span", {}, label),
      make("button", {"aria-label": `next ${what}`, "data-step": `${what}+`, disabled: now >= most, onclick: () => access.step(what, 1)}, "▸")];
    const select = make("select", {"aria-label": "warp"}, ...warps.map((w) => make("option", {value: w, selected: w === state.warp}, `warp ${w}`)));
    select.addEventListener("change", () => { state.warp = Number(select.value); state.nth = 0; state.pass = -1; redraw(); });
    const held = lanesOf(request);
    element.append(
      make("div", {class: "controls"}, select,
        ...stepper("nth", `request ${request.nth + 1} of the first ${ofWarp.length}`, 0, state.nth, ofWarp.length - 1),
        ...rows === 1 ? [] : stepper("pass", state.pass < 0 ? `all ${plural(rows, passes)}` : `${passes} ${state.pass} of ${rows}`, -1, state.pass, rows - 1)),
      make("div", {class: "picture"}, line.space === "global" ? drawSectors(this.inspection, request, state.pass) : drawBanks(request, state.pass)),
      make("details", {}, make("summary", {}, `${held.length} lanes, ${request.width} bytes each`),
        make("div", {class: "scroll"}, make("table", {},
          make("tr", {}, ...["lane", "byte", line.space === "global" ? "element" : "bank", passes].map((h) => make("th", {}, h))),
          ...held.map((lane) => make("tr", {}, ...[lane, request.offsets[lane],
            line.space === "global" ? elementName(this.inspection, request, request.offsets[lane]) : (Math.floor(request.offsets[lane] / 4) + request.first_bank) % BANKS,
            line.space === "global" ? sectorsOf(request).indexOf(sectorOf(request.offsets[lane])) : request.wavefronts[lane]].map((v) => make("td", {}, String(v)))))))));
    return element;
  }

  showEvents(events) {
    const some = events.filter((e) => e.row.from === e.warp && e.row.cta === e.cta);
    if (!some.length) return null;
    const shown = some.slice(0, 40);
    return make("details", {class: "access", open: this.accesses.length ? null : ""},
      make("summary", {}, `${plural(some.length, "event")} in the timeline`),
      make("div", {class: "scroll"}, make("table", {},
        make("tr", {}, ...["step", "who", "what"].map((h) => make("th", {}, h))),
        ...shown.map((e) => make("tr", {}, make("td", {}, make("button", {onclick: () => this.goTo(e.begin)}, String(e.begin))),
          make("td", {}, e.row.name), make("td", {}, this.timeline.describe(e)))))));
  }

  // ---------------------------------------------------------------- the timeline

  buildTimeline() {
    const t = this.timeline;
    this.canvas = make("canvas", {"aria-label": "timeline", role: "img"});
    this.slider = make("input", {type: "range", min: 0, max: t.last, value: 0, "aria-label": "step"});
    this.slider.addEventListener("input", () => this.goTo(Number(this.slider.value)));
    this.where = make("span", {class: "where"});
    this.now = make("table", {class: "now-table"});
    const button = (text, label, action) => make("button", {"aria-label": label, title: label, onclick: action}, text);
    const legend = [...new Map(Object.values(STYLE).filter((s) => s[0] !== "cursor")).entries()];
    this.element.append(make("div", {class: "timeline"},
      make("h3", {}, `Timeline of CTA ${t.raw.block}${t.raw.ctas > 1 ? ` to ${t.raw.block + t.raw.ctas - 1}, a cluster` : ""}`),
      make("p", {class: "faint", style: "margin: 0"}, "Steps are an order, not time: an instruction takes one step, a copy and a wgmma a nominal number, and a wait ends when what it waits for has come." +
        (t.raw.cut ? ` Only the first ${count(t.events.length)} events are shown.` : "")),
      make("div", {class: "legend"}, ...legend.map(([color, text]) =>
        make("span", {}, make("i", {style: `background: var(--${color})`}), text)),
        make("span", {}, make("i", {style: "background: var(--phase-1)"}), "a barrier's phase")),
      make("div", {class: "controls"}, button("◂", "previous event", () => this.nextEvent(-1)), button("▸", "next event", () => this.nextEvent(1)),
        this.slider, this.where, button("+", "zoom in", () => this.zoom(0.5)), button("−", "zoom out", () => this.zoom(2))),
      this.canvas, this.now));
    const barriers = [...t.barriers.values()].filter((b) => b.kind !== "block" && b.completed.length);
    this.tracks = [...t.rows.map((row) => ({row, height: 30})), ...barriers.slice(0, 24).map((barrier) => ({barrier, height: 16}))];
    const pick = (event) => this.pick(event.offsetX, event.offsetY, event.type === "pointerdown");
    this.canvas.addEventListener("pointerdown", pick);
    this.canvas.addEventListener("pointermove", (event) => { if (event.buttons === 1) pick(event); });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    }, {passive: false});
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    // Enough of the beginning to read.
    this.view.to = Math.min(t.last, Math.max(160, Math.round(t.last / 12)));
    this.goTo(0);
  }

  // The row's events that run at `step`.
  at(row, step) {
    return row.events.filter((e) => e.begin <= step && step < Math.max(e.begin + 1, e.end < 0 ? Infinity : e.end));
  }

  goTo(step) {
    const t = this.timeline;
    this.step = Math.max(0, Math.min(t.last, step));
    this.slider.value = this.step;
    this.where.textContent = `step ${this.step} of ${t.last}`;
    const width = this.view.to - this.view.from;
    if (this.step < this.view.from || this.step > this.view.to) {
      this.view.from = Math.max(0, Math.min(t.last - width, Math.round(this.step - width / 3)));
      this.view.to = this.view.from + width;
    }
    this.now.replaceChildren(...t.rows.map((row) => {
      const events = this.at(row, this.step);
      return make("tr", {}, make("th", {}, row.name), make("td", {}, row.role),
        make("td", {}, events.length ? events.map((e) => t.describe(e)).join("; ") : "-"));
    }));
    if (this.items) this.mark();
    this.draw();
  }

  nextEvent(direction) {
    const steps = [...new Set(this.timeline.events.map((e) => e.begin))].sort((a, b) => a - b);
    const step = direction > 0 ? steps.find((s) => s > this.step) : steps.reverse().find((s) => s < this.step);
    if (step !== undefined) this.goTo(step);
  }

  zoom(by) {
    const width = Math.max(24, Math.min(this.timeline.last, Math.round((this.view.to - this.view.from) * by)));
    this.view.from = Math.max(0, Math.min(this.timeline.last - width, Math.round(this.step - width / 2)));
    this.view.to = this.view.from + width;
    this.draw();
  }

  geometry() {
    const left = this.canvas.clientWidth < 600 ? 78 : 150;
    const scale = (this.canvas.clientWidth - left - 6) / Math.max(1, this.view.to - this.view.from);
    return {left, x: (step) => left + (step - this.view.from) * scale, step: (x) => Math.round((x - left) / scale + this.view.from)};
  }

  pick(x, y, chooses) {
    const g = this.geometry();
    if (x < g.left) return;
    this.goTo(Math.floor((x - g.left) / ((this.canvas.clientWidth - g.left - 6) / (this.view.to - this.view.from)) + this.view.from));
    let top = 20;
    for (const track of this.tracks) {
      if (chooses && track.row && y >= top && y < top + track.height) {
        const event = this.at(track.row, this.step).pop();
        if (event && event.line !== null) this.choose(event.line);
      }
      top += track.height;
    }
  }

  draw() {
    if (!this.canvas || !this.canvas.clientWidth) return;
    const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(`--${name}`).trim();
    const dpr = window.devicePixelRatio || 1, width = this.canvas.clientWidth;
    const height = 24 + this.tracks.reduce((sum, track) => sum + track.height, 0);
    this.canvas.style.height = `${height}px`;
    this.canvas.width = width * dpr;
    this.canvas.height = height * dpr;
    const c = this.canvas.getContext("2d"), g = this.geometry();
    c.scale(dpr, dpr);
    c.fillStyle = color("page");
    c.fillRect(0, 0, width, height);
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = color("faint");
    const span = this.view.to - this.view.from, tick = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((s) => span / s <= width / 90) ?? 10000;
    for (let step = Math.ceil(this.view.from / tick) * tick; step <= this.view.to; step += tick) {
      c.fillText(String(step), g.x(step) + 2, 12);
      c.fillRect(g.x(step), 0, 0.5, height);
    }
    let top = 20;
    const bar = (from, to, y, h, name) => {
      const x = Math.max(g.left, g.x(from)), right = Math.min(width - 4, g.x(to));
      if (right <= g.left || x > width) return false;
      c.fillStyle = color(name);
      c.fillRect(x, y, Math.max(1, right - x - 0.5), h);
      return true;
    };
    for (const track of this.tracks) {
      if (track.row) this.drawRow(c, g, track.row, top, bar, color);
      else {
        let from = 0;
        track.barrier.completed.forEach((step, phase) => {
          if (bar(from, step, top + 2, track.height - 4, `phase-${phase & 1}`) && g.x(step) - g.x(from) > 34 && g.x(from) >= g.left) {
            c.fillStyle = color("text");
            c.fillText(`${phase}`, g.x(from) + 3, top + 12);
          }
          from = step;
        });
      }
      c.fillStyle = color("page");
      c.fillRect(0, top, g.left - 2, track.height);
      c.fillStyle = color(track.row ? "text" : "faint");
      const label = track.row ? `${track.row.name}` : track.barrier.name;
      c.fillText(label, 4, top + (track.row ? 13 : 12), g.left - 8);
      if (track.row && track.row.role) {
        c.fillStyle = color("faint");
        c.fillText(track.row.role, 4, top + 25, g.left - 8);
      }
      top += track.height;
    }
    c.fillStyle = color("cursor");
    if (this.step >= this.view.from && this.step <= this.view.to) c.fillRect(g.x(this.step), 0, 1.5, height);
  }

  drawRow(c, g, row, top, bar, color) {
    for (const event of row.events) {
      const [name] = STYLE[event.kind], end = event.end < 0 ? this.timeline.last : Math.max(event.end, event.begin + 0.6);
      const small = name === "signal";
      bar(event.begin, end, top + (small ? 5 : 2), small ? 10 : 16, name);
      if (event.done) bar(event.begin, event.done, top + 20, 7, name);
      if (this.chosen !== null && (sameLine(event.line, this.chosen) || sameLine(event.helper, this.chosen)) && g.x(end) > g.left) {
        c.fillStyle = color("text");
        c.fillRect(Math.max(g.left, g.x(event.begin)), top, Math.max(2, g.x(end) - Math.max(g.left, g.x(event.begin))), 1.5);
      }
      if (event.kind === "mistake" && g.x(event.begin) >= g.left) {
        c.fillStyle = color("cursor");
        c.fillText("✖", g.x(event.begin) - 3, top + 14);
      }
    }
  }
}

// ------------------------------------------------------------------------------- the page

const first = document.getElementById("first"), second = document.getElementById("second"), panes = document.getElementById("panes");

function show() {
  const chosen = [first.value, second.value].filter((value) => value !== "");
  panes.classList.toggle("two", chosen.length === 2);
  const made = chosen.map((index) => new Pane(DATA.inspections[Number(index)]));
  panes.replaceChildren(...made.map((pane) => pane.element));
  Pane.all = made;
  Pane.active = made[0];
  made.forEach((pane) => pane.choose(pane.chosen, pane.finding));  // now that they have a size
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  for (const pane of Pane.all ?? []) pane.draw();
}

function start() {
  DATA.inspections.forEach((inspection, index) => {
    const name = `${inspection.id} ${inspection.dtype}${inspection.op === "nn" ? "" : ` ${inspection.op}`}`;
    first.append(make("option", {value: index}, name));
    second.append(make("option", {value: index}, name));
  });
  second.prepend(make("option", {value: ""}, "nothing"));
  const one = DATA.inspections[0];
  const other = DATA.inspections.findIndex((i) => i.id !== one.id && i.dtype === one.dtype);
  first.value = "0";
  second.value = other < 0 ? "" : String(other);
  if (DATA.inspections.length === 1) second.parentElement.hidden = true;
  first.addEventListener("change", show);
  second.addEventListener("change", show);
  const wanted = new URLSearchParams(location.search).get("theme");
  setTheme(wanted ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("help").addEventListener("click", (event) => {
    const keys = document.getElementById("keys");
    keys.hidden = !keys.hidden;
    event.target.setAttribute("aria-expanded", String(!keys.hidden));
  });
  document.getElementById("footer").textContent =
    `gemm_bench ${DATA.version}, revision ${DATA.context.git_revision}. Counters: the traced simulator; no time is simulated.`;
  document.addEventListener("keydown", onKey);
  show();
}

const toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
  const pane = Pane.active, step = (what, by) => pane.accesses && pane.accesses.filter((a) => a.step).forEach((a) => a.step(what, by));
  const actions = {
    j: () => pane.neighbour(1), k: () => pane.neighbour(-1), w: () => step("pass", 1), W: () => step("pass", -1),
    n: () => step("nth", 1), p: () => step("nth", -1), "]": () => pane.nextEvent(1), "[": () => pane.nextEvent(-1),
    "+": () => pane.zoom(0.5), "-": () => pane.zoom(2), t: toggleTheme,
  };
  if (actions[event.key] === undefined) return;
  actions[event.key]();
  event.preventDefault();
}

start();
