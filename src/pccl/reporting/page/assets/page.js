// --- page: controls, and what they do --------------------------------------------------------------------------------------

const STEPS = 1000;         // of the slider
const PLAY_SECONDS = 12;    // for the whole algorithm at normal speed
const CALM_STEPS = 24;      // with reduced motion, time goes on in so many steps
const state = { time: 0, playing: false, last: 0, drawing: false, chosen: { device: -1, link: -1 } };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function say(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text;
}

function redraw() {
  if (state.drawing) return;
  state.drawing = true;
  requestAnimationFrame(() => {
    state.drawing = false;
    drawAll();
  });
}

function drawAll() {
  const moving = drawNetwork(state.time, state.chosen);
  if (seen.curve) drawCurve(state.time);
  if (seen.heat) drawHeat(state.time);
  const share = busyNow[intervalAt(state.time)];
  const sampled = data.chunk.length < report.chunks ? " of those shown" : "";
  say("now", `At ${timeText(state.time)}: ${plural(moving, "transfer")}${sampled} under way, ${percent(share)} of the links busy.`);
}

// Charts that are scrolled out of sight are not drawn.
const seen = { curve: true, heat: true };

function watchSight() {
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.target.id] = entry.isIntersecting;
    redraw();
  });
  for (const id of Object.keys(seen)) watcher.observe(find(id));
}

// --- time ------------------------------------------------------------------------------------------------------------------

function setTime(time) {
  state.time = Math.min(report.duration, Math.max(0, time));
  find("time").value = String(Math.round(state.time / report.duration * STEPS));
  find("time").setAttribute("aria-valuetext", timeText(state.time));
  say("clock", timeText(state.time));
  redraw();
}

function setPlaying(playing) {
  state.playing = playing;
  if (playing && state.time >= report.duration) setTime(0);
  const button = find("play");
  button.setAttribute("aria-pressed", String(playing));
  button.innerHTML = playing ? '<span aria-hidden="true">❚❚</span> Pause' : '<span aria-hidden="true">▶</span> Play';
  state.last = performance.now();
  if (playing) requestAnimationFrame(goOn);
}

function goOn(now) {
  if (!state.playing) return;
  const speed = Number(find("speed").value), whole = PLAY_SECONDS * 1000 / speed;
  const elapsed = Math.max(0, now - state.last), step = whole / CALM_STEPS;
  if (!calm.matches || elapsed >= step) {
    setTime(state.time + (calm.matches ? report.duration / CALM_STEPS : elapsed / whole * report.duration));
    state.last = now;
  }
  if (state.time >= report.duration) setPlaying(false); else requestAnimationFrame(goOn);
}

// --- filters -----------------------------------------------------------------------------------------------------------------

function option(value, text) {
  const entry = document.createElement("option");
  entry.value = String(value);
  entry.textContent = text;
  return entry;
}

function fillFilters() {
  find("group").append(option(-1, "all"), ...report.groups.map((text, k) => option(k, text)));
  find("collective").append(option(-1, "all"), ...report.collectives.map((text, k) => option(k, `${k}: ${text}`)));
  find("chunk").max = String(report.chunks - 1);
}

function filtersChanged() {
  computeLoad();
  redraw();
}

function setChunk(chunk) {
  filter.chunk = chunk;
  find("chunk").value = chunk < 0 ? "" : String(data.chunk[chunk]);
  say("chunk-text", chunk < 0 ? "" : way(chunk));
  if (chunk >= 0 && data.hops[chunk] && !underWay(state.time).length) {  // go where there is something to see
    const first = data.first[chunk];
    setTime((data.begin[first] + data.end[first]) / 2);
  }
  filtersChanged();
}

// The way of a chunk in words.
function way(chunk) {
  const hops = [];
  for (let i = data.first[chunk]; i < data.first[chunk + 1] && hops.length < 12; i++) {
    hops.push(`${report.devices[data.src[data.link[i]]]} → ${report.devices[data.dst[data.link[i]]]} at ${timeText(data.begin[i])}`);
  }
  const more = data.hops[chunk] > hops.length ? `; and ${data.hops[chunk] - hops.length} more` : "";
  return `${chunkText(chunk).replace("\n", ": ")}${hops.length ? `: ${hops.join("; ")}${more}` : ""}.`;
}

function chunkTyped() {
  const text = find("chunk").value.trim(), number = Number(text);
  if (text === "") return setChunk(-1);
  const near = position(number);
  if (data.chunk[near] === number) return setChunk(near);
  filter.chunk = -1;
  filtersChanged();
  const there = number >= report.chunks || number < 0 || !Number.isInteger(number)
    ? `There is no chunk ${text}; they are numbered from 0 to ${report.chunks - 1}.`
    : `Chunk ${number} is not in the sample that this page shows; the nearest is ${data.chunk[near]}.`;
  return say("chunk-text", there);
}

// The first chunk shown whose number is not smaller, or else the last.
function position(number) {
  let low = 0, high = data.chunk.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.chunk[middle] < number) low = middle + 1; else high = middle;
  }
  return low;
}

function stepChunk(by) {
  const count = data.chunk.length;
  let chunk = filter.chunk < 0 ? (by > 0 ? -1 : count) : filter.chunk;
  do chunk += by; while (chunk >= 0 && chunk < count && !passes(data.collective[chunk]));
  if (chunk >= 0 && chunk < count) setChunk(chunk);
}

function clearFilters() {
  filter.group = filter.collective = -1;
  find("group").value = find("collective").value = "-1";
  setChunk(-1);
}

// --- pointing ------------------------------------------------------------------------------------------------------------------

function describe(what) {
  if (what.transfer !== undefined) return transferText(what.transfer);
  if (what.device !== undefined) return deviceText(what.device);
  return what.link >= 0 ? linkText(what.link, state.time) : "";
}

function showTip(event, text) {
  const tip = find("tip");
  tip.hidden = !text;
  tip.textContent = text;
  if (!text) return;
  const { width, height } = tip.getBoundingClientRect(), gap = 14;
  tip.style.left = `${Math.max(4, event.clientX + gap + width > innerWidth ? event.clientX - gap - width : event.clientX + gap)}px`;
  tip.style.top = `${Math.max(4, event.clientY + gap + height > innerHeight ? event.clientY - gap - height : event.clientY + gap)}px`;
}

function choose(what) {
  state.chosen = { device: what.device ?? -1, link: what.link ?? -1 };
  const text = describe(what);
  if (text) say("picked", text.replaceAll("\n", ", "));
  redraw();
}

function pointAtNetwork() {
  const canvas = find("network");
  let held = null;
  const at = (event) => whatIsAt(event.offsetX, event.offsetY, state.time);
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    if (held && event.buttons && view.zoom > 1) {
      const { scale } = transform();
      view.x += (event.clientX - held.x) / scale;
      view.y += (event.clientY - held.y) / scale;
      held = { x: event.clientX, y: event.clientY, moved: held.moved || Math.abs(event.movementX) + Math.abs(event.movementY) > 1 };
      redraw();
    } else showTip(event, describe(at(event)));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!held?.moved) choose(at(event));
    held = null;
  });
  canvas.addEventListener("pointerleave", (event) => { held = null; showTip(event, ""); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;  // scrolling stays scrolling
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, { passive: false });
}

function zoom(factor) {
  view.zoom = factor ? Math.min(40, Math.max(1, view.zoom * factor)) : 1;
  if (view.zoom === 1) view.x = view.y = 0;
  find("network").style.touchAction = view.zoom > 1 ? "none" : "pan-y";
  redraw();
}

function pointAtCharts() {
  for (const [id, text] of [["heat", heatText], ["curve", curveText]]) {
    const canvas = find(id), seek = (event) => setTime(timeAt(canvas, event.offsetX));
    canvas.addEventListener("pointerdown", seek);
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) seek(event);
      showTip(event, text(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointerleave", (event) => showTip(event, ""));
  }
}

function curveText(x) {
  const time = timeAt(find("curve"), x);
  return `${timeText(time)}: ${percent(busyNow[intervalAt(time)])} of the links busy`;
}

// --- keyboard --------------------------------------------------------------------------------------------------------------------

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const free = event.target === document.body || ["network", "time"].includes(event.target.id);
    if (event.key !== " " || !free || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setPlaying(!state.playing);
  });
  find("network").addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "-") return zoom(event.key === "+" ? 1.4 : 1 / 1.4);
    if (!(event.key in ARROWS)) return undefined;
    event.preventDefault();
    const from = state.chosen.device;
    return choose({ device: from < 0 ? data.kind.indexOf(NPU) : neighbour(from, ...ARROWS[event.key]) });
  });
}

// Numbers in the tables lead to the animation.
function linkTables() {
  for (const cell of document.querySelectorAll("[data-link], [data-chunk]")) {
    const button = document.createElement("button"), number = Number(cell.textContent), what = cell.dataset.link ? "link" : "chunk";
    button.type = "button";
    button.textContent = cell.textContent;
    button.setAttribute("aria-label", `Show ${what} ${number} in the network`);
    button.addEventListener("click", () => {
      if (what === "link") choose({ link: number }); else setChunk(position(number));
      find("watch").scrollIntoView();
      find("network").focus({ preventScroll: true });
    });
    cell.replaceChildren(button);
  }
}

// --- legend and start --------------------------------------------------------------------------------------------------------------

function drawLegend() {
  const canvas = find("ramp"), pen = canvas.getContext("2d");
  for (let x = 0; x < canvas.width; x++) {
    pen.fillStyle = rampColour(Math.round(255 * x / (canvas.width - 1)));
    pen.fillRect(x, 0, 1, canvas.height);
  }
  const shown = report.collectives.slice(0, COLOURS.length).map((text, k) => key(COLOURS[k], `chunks of ${k}: ${text.split(" ")[0]}`));
  if (report.collectives.length > COLOURS.length) shown.push(document.createTextNode("colours repeat"));
  if (data.tints.some((colours) => colours.length)) shown.push(document.createTextNode("NPUs have the colour of their groups, outsiders none"));
  if (data.reduce.includes(1)) shown.push(key("transparent", "partial sums are squares", "square"));
  find("keys").replaceChildren(...shown);
}

function key(colour, text, shape = "") {
  const entry = document.createElement("span"), dot = document.createElement("i");
  dot.className = shape;
  dot.style.background = colour;
  entry.append(dot, text);
  return entry;
}

function themeChanged() {
  readTheme();
  drawLegend();
  redraw();
}

function listen() {
  find("play").addEventListener("click", () => setPlaying(!state.playing));
  find("time").addEventListener("input", () => setTime(Number(find("time").value) / STEPS * report.duration));
  for (const id of ["group", "collective"]) {
    find(id).addEventListener("change", () => {
      filter[id] = Number(find(id).value);
      if (filter.chunk >= 0 && !passes(data.collective[filter.chunk])) setChunk(-1); else filtersChanged();
    });
  }
  find("chunk").addEventListener("change", chunkTyped);
  find("chunk-before").addEventListener("click", () => stepChunk(-1));
  find("chunk-after").addEventListener("click", () => stepChunk(1));
  find("clear").addEventListener("click", clearFilters);
  for (const id of ["order", "colouring"]) find(id).addEventListener("change", redraw);
  find("zoom-in").addEventListener("click", () => zoom(1.4));
  find("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  find("zoom-fit").addEventListener("click", () => zoom(0));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
  new ResizeObserver(() => {
    turnIfBetter();
    redraw();
  }).observe(find("network"));
}

async function begin() {
  await readColumns();
  deriveColumns();
  findRims();
  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  if (!report.duration) report.duration = 1;  // nothing moves, and everything is at time zero
  computeLoad();
  fillFilters();
  themeChanged();
  listen();
  listenToKeys();
  pointAtNetwork();
  pointAtCharts();
  linkTables();
  setTime(report.duration * 0.25);
  watchSight();
  document.body.dataset.ready = "yes";
}

begin().catch((error) => {
  find("trouble").hidden = false;
  say("trouble", `This browser cannot show the animation: ${error.message}. Browsers of 2023 and later can.`);
  throw error;
});
