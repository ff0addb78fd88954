// --- data: what the page is about, and what follows from it ---------------------------------------------------------

const find = (id) => document.getElementById(id);
const report = JSON.parse(find("document").textContent);
const filter = { group: -1, collective: -1, chunk: -1 };  // of chunks: which of those shown, not its number
let data = {};

// Columns lie one after another, deflated; of each, all first bytes come before all second ones.
async function readColumns() {
  const text = atob(find("packed").textContent.trim());
  const packed = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const types = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
  let begin = 0;
  for (const [name, short, length] of report.columns) {
    const width = types[short].BYTES_PER_ELEMENT, whole = new Uint8Array(length * width);
    for (let byte = 0; byte < width; byte++) {
      for (let i = 0, from = begin + byte * length; i < length; i++) whole[i * width + byte] = bytes[from + i];
    }
    data[name] = new types[short](whole.buffer);
    begin += length * width;
  }
}

function deriveColumns() {
  const { hops, link, start, size, rate, latency } = data, count = link.length, rates = report.bandwidths.length;
  data.owner = new Uint32Array(count);
  data.first = new Uint32Array(hops.length + 1);
  for (let chunk = 0; chunk < hops.length; chunk++) {
    data.first[chunk + 1] = data.first[chunk] + hops[chunk];
    data.owner.fill(chunk, data.first[chunk], data.first[chunk + 1]);
  }
  data.begin = new Float64Array(count);
  data.sent = new Float64Array(count);
  data.end = new Float64Array(count);
  report.longest = 0;
  for (let i = 0; i < count; i++) {
    data.begin[i] = start[i] * report.tick;
    data.sent[i] = data.begin[i] + report.transmission[size[data.owner[i]] * rates + rate[link[i]]];
    data.end[i] = data.sent[i] + report.latency[latency[link[i]]];
    report.longest = Math.max(report.longest, data.end[i] - data.begin[i]);
  }
  data.order = Uint32Array.from({ length: count }, (_, i) => i).sort((a, b) => data.begin[a] - data.begin[b]);
  data.member = groupMembers();
  data.tints = tintsOf();
}

function groupMembers() {
  let begin = 0;
  return Array.from(data.group_size, (length) => new Set(data.members.subarray(begin, begin += length)));
}

// --- filters ---------------------------------------------------------------------------------------------------------

const passes = (collective) => (filter.collective < 0 || filter.collective === collective)
  && (filter.group < 0 || report.group[collective] === filter.group);
const shows = (chunk) => (filter.chunk < 0 || filter.chunk === chunk) && passes(data.collective[chunk]);
const filtered = () => filter.chunk >= 0 || filter.collective >= 0 || filter.group >= 0;

// The transfers under way at a time, in the order in which they began, that pass the filters.
function underWay(time) {
  const { order, begin, end, owner } = data, found = [];
  for (let k = countBegun(time) - 1; k >= 0; k--) {
    const i = order[k];
    if (begin[i] < time - report.longest) break;
    if (end[i] > time && shows(owner[i])) found.push(i);
  }
  return found;
}

function countBegun(time) {
  let low = 0, high = data.order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.begin[data.order[middle]] <= time) low = middle + 1; else high = middle;
  }
  return low;
}

// --- load: how busy links are ------------------------------------------------------------------------------------------

const intervalAt = (time) => Math.min(report.intervals - 1, Math.max(0, Math.floor(time / report.duration * report.intervals)));
let load = null;     // [link * intervals + interval], 255 for busy all the time
let busyNow = null;  // per interval: the share of all links that is busy

function computeLoad() {
  const width = report.intervals, table = new Uint8Array(data.src.length * width);
  if (filter.chunk >= 0) addChunk(table, filter.chunk, width);
  else {
    for (let row = 0; row < data.row_link.length; row++) {
      if (report.apart && !passes(data.row_collective[row])) continue;
      const to = data.row_link[row] * width, from = row * width;
      for (let k = 0; k < width; k++) table[to + k] = Math.min(255, table[to + k] + data.share[from + k]);
    }
  }
  load = table;
  busyNow = usage();
}

function addChunk(table, chunk, width) {
  const span = report.duration / width;
  for (let i = data.first[chunk]; i < data.first[chunk + 1]; i++) {
    for (let k = intervalAt(data.begin[i]); k < width && k * span < data.sent[i]; k++) {
      const held = Math.min(data.sent[i], (k + 1) * span) - Math.max(data.begin[i], k * span);
      table[data.link[i] * width + k] += Math.round(255 * held / span);
    }
  }
}

// Per interval: the share of all links that is busy with what passes the filters.
function usage(passing = passes) {
  const width = report.intervals, total = new Float64Array(width);
  if (filter.chunk >= 0) {
    for (let i = 0; i < load.length; i++) total[i % width] += load[i] / 255 / data.src.length;
    return total;
  }
  for (let c = 0; c * width < data.usage.length; c++) {
    if (report.apart && !passing(c)) continue;
    for (let k = 0; k < width; k++) total[k] += data.usage[c * width + k];
  }
  return total;
}

function meanLoad(link) {
  const width = report.intervals;
  let sum = 0;
  for (let k = 0; k < width; k++) sum += load[link * width + k];
  return sum / 255 / width;
}

// --- words -----------------------------------------------------------------------------------------------------------

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const plural = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

function timeText(time) {
  for (const [unit, factor] of [["s", 1e12], ["ms", 1e9], ["us", 1e6], ["ns", 1e3]]) {
    if (time >= factor) return `${(time / factor).toFixed(2)} ${unit}`;
  }
  return time > 0 ? `${Math.round(time)} ps` : "0 us";
}

function sizeText(bytes) {
  for (const [unit, factor] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (bytes >= factor) return `${(bytes / factor).toFixed(1)} ${unit}`;
  }
  return `${Math.round(bytes)} B`;
}

const linkName = (link) => `link ${link} (${report.devices[data.src[link]]} → ${report.devices[data.dst[link]]})`;

function linkText(link, time) {
  const now = load[link * report.intervals + intervalAt(time)] / 255;
  return `${linkName(link)}\n${report.bandwidths[data.rate[link]]}, ${report.latencies[data.latency[link]]}\n`
    + `busy ${percent(data.busy[link])} of the time, now ${percent(now, 0)}${filtered() ? " with what is chosen" : ""}\n`
    + `${plural(data.carried[link], "transfer")}, ${sizeText(data.bytes[link])}`;
}

function deviceText(device) {
  let inward = 0, outward = 0, received = 0, sent = 0;
  for (let link = 0; link < data.src.length; link++) {
    if (data.dst[link] === device) { inward++; received += data.bytes[link]; }
    if (data.src[link] === device) { outward++; sent += data.bytes[link]; }
  }
  const groups = data.member.flatMap((members, group) => members.has(device) ? [report.groups[group]] : []);
  const taking = groups.length ? `\nin ${groups.length === 1 ? "group" : "groups"} ${groups.slice(0, 4).join("; ")}${groups.length > 4 ? "; …" : ""}` : "";
  return `${report.devices[device]}\nreceives ${sizeText(received)} over ${plural(inward, "link")}\n`
    + `sends ${sizeText(sent)} over ${plural(outward, "link")}${taking}`;
}

function endText(first, count) {
  return count === 1 ? report.devices[first] : count ? `${count} NPUs` : "nobody else";
}

function chunkText(chunk) {
  return `chunk ${data.chunk[chunk]} of ${report.collectives[data.collective[chunk]]}\n`
    + `${report.sizes[data.size[chunk]]} from ${endText(data.source[chunk], data.sources[chunk])} to `
    + `${endText(data.destination[chunk], data.destinations[chunk])}, ${plural(data.hops[chunk], "transfer")}`;
}

const transferText = (i) => `${chunkText(data.owner[i])}\nnow over ${linkName(data.link[i])}\n`
  + `${timeText(data.begin[i])} to ${timeText(data.end[i])}${data.reduce[i] ? ", to be added up" : ""}`;
