// --- network: devices, links, and chunks on their way ------------------------------------------------------------------

const LIGHT = ["#dde2e9", "#a6c8e4", "#5a9bd4", "#2467b0", "#4b2c83", "#35103f"];
const DARK = ["#2a313b", "#2f4b8a", "#7a4fb0", "#c9528f", "#f58a5b", "#ffe08a"];
// Told apart by people of all kinds of colour vision, after Okabe and Ito; the style sheet has them.
const COLOURS = Array.from({ length: 8 }, (_, k) => cssColour(`colour-${k}`));
// How much of the colour of its process group an NPU has.
const TINT = 0.4;
const LEVELS = 16;
const NPU = 0, ABSENT = 2;

let theme = {};

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function readTheme() {
  for (const name of ["page", "line", "text", "soft", "accent", "idle", "device", "device-line", "member"]) {
    theme[name] = cssColour(name);
  }
  const device = channels(theme.device);
  theme.tints = COLOURS.map((colour) => `rgb(${channels(colour).map((value, c) => Math.round(TINT * value + (1 - TINT) * device[c])).join()})`);
  const stops = (matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT).map(channels);
  theme.ramp = Array.from({ length: 256 }, (_, level) => {
    const place = level / 255 * (stops.length - 1), below = Math.min(stops.length - 2, Math.floor(place));
    return stops[below].map((value, c) => Math.round(value + (stops[below + 1][c] - value) * (place - below)));
  });
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const rampColour = (level) => `rgb(${theme.ramp[level].join()})`;

// A canvas as sharp as the screen; coordinates are those of the page.
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height, ratio };
}

const view = { zoom: 1, x: 0, y: 0 };  // x and y move the drawing, in units of the layout
const layer = { canvas: document.createElement("canvas"), key: "" };  // links and devices, which change less often

function transform() {
  const canvas = find("network"), [left, top, right, bottom] = report.extent, margin = 2.2 * report.radius;
  const across = right - left + 2 * margin, down = bottom - top + 2 * margin;
  const scale = view.zoom * Math.min(canvas.clientWidth / across, canvas.clientHeight / down, 110);
  return {
    scale,
    x: canvas.clientWidth / 2 - scale * ((left + right) / 2 - view.x),
    y: canvas.clientHeight / 2 - scale * ((top + bottom) / 2 - view.y),
  };
}

// A tall drawing lies down on a wide canvas, and a wide one stands up on a tall one, if nothing in it has to be read.
function turnIfBetter() {
  const canvas = find("network"), [left, top, right, bottom] = report.extent;
  const fits = (across, down) => Math.min(canvas.clientWidth / across, canvas.clientHeight / down);
  const across = right - left + 4 * report.radius, down = bottom - top + 4 * report.radius;
  if (report.frames.length || fits(down, across) < 1.3 * fits(across, down)) return;
  report.extent = [top, left, bottom, right];
  [data.x, data.y] = [data.y, data.x];
  for (let k = 0; k < data.curve.length; k += 2) {
    [data.curve[k], data.curve[k + 1]] = [data.curve[k + 1], data.curve[k]];
  }
  layer.key = "";
}

function drawNetwork(time, chosen) {
  const canvas = find("network"), { pen, width, height, ratio } = prepare(canvas), place = transform();
  const byNow = find("colouring").value === "now";
  const key = [byNow ? intervalAt(time) : "", JSON.stringify(filter), width, height, ratio, place.scale, place.x, place.y,
    theme.page, JSON.stringify(chosen)].join();
  if (layer.key !== key) {
    drawLayer(time, byNow, place, canvas, chosen);
    layer.key = key;
  }
  pen.save();
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.drawImage(layer.canvas, 0, 0);
  pen.restore();
  const moving = underWay(time);
  drawChunks(pen, place, moving, time);
  return moving.length;
}

function drawLayer(time, byNow, place, like, chosen) {
  layer.canvas.width = like.width;
  layer.canvas.height = like.height;
  const pen = layer.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
  pen.setTransform(ratio * place.scale, 0, 0, ratio * place.scale, ratio * place.x, ratio * place.y);
  drawFrames(pen, place.scale);
  if (filter.chunk >= 0) drawWay(pen, place.scale);
  drawLinks(pen, place.scale, time, byNow);
  if (chosen.link >= 0) {
    pen.beginPath();
    trace(pen, chosen.link);
    stroke(pen, theme.text, 3.5 / place.scale);
  }
  drawDevices(pen, place.scale, chosen);
}

function stroke(pen, colour, width) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

function drawFrames(pen, scale) {
  pen.fillStyle = theme.soft;
  pen.font = `${12 / scale}px system-ui, sans-serif`;
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  for (const [label, left, top, right, bottom, below] of report.frames) {
    pen.beginPath();
    pen.rect(left, top, right - left, bottom - top);
    stroke(pen, theme.line, 1.5 / scale);
    pen.fillText(label, left, below ? bottom + 14 / scale : top - 4 / scale);
  }
}

// One path for all links of a level: thousands of links cost a handful of strokes.
function drawLinks(pen, scale, time, byNow) {
  const width = report.intervals, at = intervalAt(time);
  const levels = Array.from({ length: LEVELS + 1 }, () => []);
  for (let link = 0; link < data.src.length; link++) {
    const share = byNow ? load[link * width + at] / 255 : filtered() ? meanLoad(link) : data.busy[link];
    levels[Math.ceil(share * LEVELS)].push(link);
  }
  const thin = Math.min(2, Math.max(0.6, report.radius * scale * 0.12));
  drawLost(pen, scale, thin);
  levels.forEach((links, level) => {
    if (!links.length) return;
    pen.beginPath();
    for (const link of links) trace(pen, link);
    const colour = level ? rampColour(Math.round(255 * level / LEVELS)) : theme.idle;
    stroke(pen, colour, (level ? 1.6 * thin : thin) / scale);
  });
}

// Cables that are out of order, dashed and straight.
function drawLost(pen, scale, thin) {
  if (!report.lost.length) return;
  pen.beginPath();
  for (const [a, b] of report.lost) {
    pen.moveTo(data.x[a], data.y[a]);
    pen.lineTo(data.x[b], data.y[b]);
  }
  pen.setLineDash([6 / scale, 4 / scale]);
  stroke(pen, theme.accent, thin / scale);
  pen.setLineDash([]);
}

// All links that the chosen chunk takes, at whatever time, as a broad band behind them.
function drawWay(pen, scale) {
  pen.beginPath();
  for (let i = data.first[filter.chunk]; i < data.first[filter.chunk + 1]; i++) trace(pen, data.link[i]);
  pen.globalAlpha = 0.45;
  stroke(pen, theme.accent, 7 / scale);
  pen.globalAlpha = 1;
}

function trace(pen, link) {
  const c = data.curve, k = 8 * link;
  pen.moveTo(c[k], c[k + 1]);
  pen.bezierCurveTo(c[k + 2], c[k + 3], c[k + 4], c[k + 5], c[k + 6], c[k + 7]);
}

// Per device: the numbers of the colours of its process groups, which are those of their first collectives. Where all
// devices are in one group, a colour would say nothing.
function tintsOf() {
  const groups = report.groups.map((_, group) => report.group.indexOf(group) % COLOURS.length);
  const everybody = data.member.length === 1 && data.member[0].size === data.kind.filter((kind) => kind === NPU).length;
  return Array.from(data.kind, (_, device) => everybody ? [] : groups.filter((_, group) => data.member[group].has(device)).slice(0, 4));
}

// Equal slices, from the top on.
function fillSlices(pen, x, y, r, colours) {
  colours.forEach((colour, k) => {
    const angle = (part) => 2 * Math.PI * part / colours.length - Math.PI / 2;
    pen.beginPath();
    if (colours.length > 1) pen.moveTo(x, y);
    pen.arc(x, y, r, angle(k), angle(k + 1));
    pen.fillStyle = theme.tints[colour];
    pen.fill();
  });
}

function drawDevices(pen, scale, chosen) {
  const members = filter.group >= 0 ? data.member[filter.group] : null, r = report.radius, named = r * scale >= 9;
  const ends = filter.chunk >= 0 ? [data.source[filter.chunk], data.destination[filter.chunk]] : [];
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = `${Math.min(r * 0.85, 13 / scale)}px system-ui, sans-serif`;
  for (let device = 0; device < data.x.length; device++) {
    if (data.kind[device] === ABSENT) continue;
    const npu = data.kind[device] === NPU, picked = chosen.device === device || ends.includes(device);
    const x = data.x[device], y = data.y[device], filled = members !== null && members.has(device);
    pen.beginPath();
    if (npu) pen.arc(x, y, r, 0, 2 * Math.PI); else {
      // A switch that joins many boxes is a bus along all of them.
      const span = data.span[device], h = span ? 0.75 * r : r;
      pen.rect(x - r - span, y - h, 2 * (r + span), 2 * h);
    }
    pen.fillStyle = filled ? theme.member : theme.device;
    pen.fill();
    if (npu && members === null && data.tints[device].length) {
      fillSlices(pen, x, y, r, data.tints[device]);
      pen.beginPath();
      pen.arc(x, y, r, 0, 2 * Math.PI);
    }
    stroke(pen, picked ? theme.accent : theme["device-line"], (picked ? 4 : Math.min(1.5, r * scale * 0.2)) / scale);
    if (!named) continue;
    pen.fillStyle = filled ? theme.page : theme.text;
    // A bus has room for its name, which stands behind its number.
    const name = data.span[device] ? report.devices[device].match(/\((.*)\)/) : null;
    pen.fillText(name ? name[1] : String(device), x, y);
  }
}

function pointOn(link, part) {
  const c = data.curve, k = 8 * link, rest = 1 - part;
  const a = rest ** 3, b = 3 * rest * rest * part, d = 3 * rest * part * part, e = part ** 3;
  return [a * c[k] + b * c[k + 2] + d * c[k + 4] + e * c[k + 6], a * c[k + 1] + b * c[k + 3] + d * c[k + 5] + e * c[k + 7]];
}

const dotSize = (scale) => Math.min(6, Math.max(1.5, report.radius * scale * 0.3));

// Chunks go from the rim of one device to the rim of the other, and leave the names inside readable.
function findRims() {
  const steps = 48, links = data.src.length;
  data.leave = new Float32Array(links);
  data.enter = new Float32Array(links).fill(1);
  for (let link = 0; link < links; link++) {
    while (data.leave[link] < 0.4 && within(link, data.leave[link], data.src[link])) data.leave[link] += 1 / steps;
    while (data.enter[link] > 0.6 && within(link, data.enter[link], data.dst[link])) data.enter[link] -= 1 / steps;
  }
}

function within(link, part, device) {
  const [x, y] = pointOn(link, part);
  return Math.hypot(beside(x, device), y - data.y[device]) < report.radius;
}

// How far a place is to the left or right of a device, which may be as wide as a bus.
function beside(x, device) {
  return Math.max(0, Math.abs(x - data.x[device]) - data.span[device]);
}

function placeOf(transfer, time, place) {
  const link = data.link[transfer], leave = data.leave[link];
  const part = (time - data.begin[transfer]) / Math.max(data.end[transfer] - data.begin[transfer], 1);
  const [x, y] = pointOn(link, leave + (data.enter[link] - leave) * part);
  return [x * place.scale + place.x, y * place.scale + place.y];
}

// Copies are discs, partial sums are squares; one path for all of a colour.
function drawChunks(pen, place, moving, time) {
  const size = dotSize(place.scale), byColour = new Map();
  for (const i of moving) {
    const colour = COLOURS[data.collective[data.owner[i]] % COLOURS.length];
    if (!byColour.has(colour)) byColour.set(colour, []);
    byColour.get(colour).push(i);
  }
  for (const [colour, list] of byColour) {
    pen.beginPath();
    for (const i of list) {
      const [x, y] = placeOf(i, time, place);
      if (data.reduce[i]) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else {
        pen.moveTo(x + size, y);
        pen.arc(x, y, size, 0, 2 * Math.PI);
      }
    }
    pen.fillStyle = colour;
    pen.fill();
    if (size > 2.5) stroke(pen, theme.text, 1);
  }
}

// --- pointing ----------------------------------------------------------------------------------------------------------

// What is at a place of the canvas: a chunk before a device before a link.
function whatIsAt(x, y, time) {
  const place = transform(), reach = Math.max(dotSize(place.scale) + 2, 6);
  for (const i of underWay(time)) {
    const [cx, cy] = placeOf(i, time, place);
    if (Math.hypot(cx - x, cy - y) <= reach) return { transfer: i };
  }
  const px = (x - place.x) / place.scale, py = (y - place.y) / place.scale;
  const device = nearestDevice(px, py, Math.max(report.radius, 5 / place.scale));
  return device >= 0 ? { device } : { link: nearestLink(px, py, 10 / place.scale) };
}

function nearestDevice(x, y, within) {
  let best = -1;
  for (let device = 0; device < data.x.length; device++) {
    const distance = Math.hypot(beside(x, device), data.y[device] - y);
    if (distance <= within && data.kind[device] !== ABSENT) { best = device; within = distance; }
  }
  return best;
}

function nearestLink(x, y, within) {
  const steps = 12;
  let best = -1;
  for (let link = 0; link < data.src.length; link++) {
    let [ax, ay] = pointOn(link, 0);
    for (let k = 1; k <= steps; k++) {
      const [bx, by] = pointOn(link, k / steps), distance = toSegment(x, y, ax, ay, bx, by);
      if (distance < within) { best = link; within = distance; }
      ax = bx;
      ay = by;
    }
  }
  return best;
}

function toSegment(x, y, ax, ay, bx, by) {
  const dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy;
  const part = length ? Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length)) : 0;
  return Math.hypot(x - ax - part * dx, y - ay - part * dy);
}

// The nearest device in a direction, for arrow keys.
function neighbour(device, dx, dy) {
  let best = device, least = Infinity;
  for (let other = 0; other < data.x.length; other++) {
    const x = data.x[other] - data.x[device], y = data.y[other] - data.y[device];
    const ahead = x * dx + y * dy, aside = Math.abs(x * dy - y * dx);
    if (data.kind[other] !== ABSENT && ahead > 1e-6 && ahead >= aside && ahead + 2 * aside < least) {
      best = other;
      least = ahead + 2 * aside;
    }
  }
  return best;
}
