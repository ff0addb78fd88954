// --- charts: how busy links are over time --------------------------------------------------------------------------------

const EDGE = { left: 44, right: 10, top: 10, bottom: 24 };
const MOST_CURVES = 8;

const inside = (canvas) => canvas.clientWidth - EDGE.left - EDGE.right;
const timeAt = (canvas, x) => Math.min(1, Math.max(0, (x - EDGE.left) / inside(canvas))) * report.duration;

function drawCurve(time) {
  const { pen, width, height } = prepare(find("curve"));
  const high = height - EDGE.top - EDGE.bottom, total = busyNow;
  drawAxes(pen, width, height, ["0 %", "50 %", "100 %"]);
  area(pen, total, width, high);
  pen.globalAlpha = 0.25;
  pen.fillStyle = theme.accent;
  pen.fill();
  pen.globalAlpha = 1;
  const several = report.apart && report.collectives.length > 1 && report.collectives.length <= MOST_CURVES && filter.chunk < 0;
  if (several) report.collectives.forEach((_, c) => {
    if (passes(c)) line(pen, usage((other) => other === c), width, high, COLOURS[c % COLOURS.length]);
  });
  line(pen, total, width, high, theme.accent);
  drawCursor(pen, time, width, height);
  const mean = total.reduce((sum, share) => sum + share, 0) / total.length, peak = total.reduce((a, b) => Math.max(a, b), 0);
  say("curve-text", `${percent(mean)} of the links are busy on average, ${percent(peak)} at most${filtered() ? " (what passes the filters)" : ""}.`
    + `${several ? " Thin lines are the collectives, in the colours of their chunks." : ""} Click to go to a time.`);
}

function drawAxes(pen, width, height, marks) {
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = theme.soft;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  marks.forEach((mark, k) => {
    const y = height - EDGE.bottom - k / (marks.length - 1) * (height - EDGE.top - EDGE.bottom);
    pen.fillText(mark, EDGE.left - 6, y);
    pen.beginPath();
    pen.moveTo(EDGE.left, y);
    pen.lineTo(width - EDGE.right, y);
    stroke(pen, theme.line, 1);
  });
  drawTimes(pen, width, height);
}

function drawTimes(pen, width, height) {
  pen.fillStyle = theme.soft;
  pen.textBaseline = "top";
  for (const [part, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
    pen.textAlign = align;
    pen.fillText(timeText(part * report.duration), EDGE.left + part * (width - EDGE.left - EDGE.right), height - EDGE.bottom + 6);
  }
}

function steps(pen, shares, width, high) {
  const step = (width - EDGE.left - EDGE.right) / shares.length;
  shares.forEach((share, k) => {
    const y = EDGE.top + (1 - Math.min(1, share)) * high;
    pen.lineTo(EDGE.left + k * step, y);
    pen.lineTo(EDGE.left + (k + 1) * step, y);
  });
}

function area(pen, shares, width, high) {
  pen.beginPath();
  pen.moveTo(EDGE.left, EDGE.top + high);
  steps(pen, shares, width, high);
  pen.lineTo(width - EDGE.right, EDGE.top + high);
  pen.closePath();
}

function line(pen, shares, width, high, colour) {
  pen.beginPath();
  steps(pen, shares, width, high);
  stroke(pen, colour, colour === theme.accent ? 2 : 1.5);
}

function drawCursor(pen, time, width, height) {
  const x = EDGE.left + time / report.duration * (width - EDGE.left - EDGE.right);
  pen.beginPath();
  pen.moveTo(x, EDGE.top);
  pen.lineTo(x, height - EDGE.bottom);
  stroke(pen, theme.page, 4);
  stroke(pen, theme.text, 1.5);
}

// --- heat map: links down, time across -----------------------------------------------------------------------------------

const heat = { key: "", image: document.createElement("canvas"), rows: 0, order: null };

function drawHeat(time) {
  const { pen, width, height } = prepare(find("heat")), high = height - EDGE.top - EDGE.bottom;
  const rows = Math.max(1, Math.min(data.src.length, Math.floor(high)));
  const key = [JSON.stringify(filter), rows, theme.page, find("order").value].join();
  if (heat.key !== key) {
    paintHeat(rows);
    heat.key = key;
  }
  pen.imageSmoothingEnabled = false;
  pen.drawImage(heat.image, EDGE.left, EDGE.top, width - EDGE.left - EDGE.right, high);
  drawTimes(pen, width, height);
  pen.save();
  pen.translate(16, EDGE.top + high / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(plural(data.src.length, "link"), 0, 0);
  pen.restore();
  drawCursor(pen, time, width, height);
}

// Rows of pixels that stand for several links show their average.
function paintHeat(rows) {
  const links = data.src.length, width = report.intervals;
  heat.rows = rows;
  heat.order = Uint32Array.from({ length: links }, (_, i) => i);
  if (find("order").value === "busy") {
    const mean = Float64Array.from(heat.order, meanLoad);
    heat.order.sort((a, b) => mean[b] - mean[a] || a - b);
  }
  heat.image.width = width;
  heat.image.height = rows;
  const pen = heat.image.getContext("2d"), image = pen.createImageData(width, rows);
  for (let row = 0; row < rows; row++) {
    const [from, to] = linksOfRow(row);
    for (let k = 0; k < width; k++) {
      let sum = 0;
      for (let i = from; i < to; i++) sum += load[heat.order[i] * width + k];
      const pixel = 4 * (row * width + k), colour = theme.ramp[Math.round(sum / Math.max(1, to - from))];
      image.data.set(colour, pixel);
      image.data[pixel + 3] = 255;
    }
  }
  pen.putImageData(image, 0, 0);
  const together = links > rows ? ` Each row of pixels is the average of ${Math.ceil(links / rows)} links or fewer.` : "";
  say("heat-text", `${plural(links, "link")} from top to bottom, time from left to right${filtered() ? ", what passes the filters" : ""}.${together} The table of the worst links says the same in words.`);
}

const linksOfRow = (row) => [Math.floor(row * data.src.length / heat.rows), Math.floor((row + 1) * data.src.length / heat.rows)];

function heatText(x, y) {
  const canvas = find("heat"), high = canvas.clientHeight - EDGE.top - EDGE.bottom;
  const row = Math.floor((y - EDGE.top) / high * heat.rows), time = timeAt(canvas, x);
  if (row < 0 || row >= heat.rows || x < EDGE.left || !heat.order) return "";
  const [from, to] = linksOfRow(row), k = intervalAt(time);
  let sum = 0;
  for (let i = from; i < to; i++) sum += load[heat.order[i] * report.intervals + k];
  const who = to - from === 1 ? linkName(heat.order[from]) : `${to - from} links, the first is ${linkName(heat.order[from])}`;
  return `${timeText(time)}: ${percent(sum / 255 / Math.max(1, to - from), 0)} busy\n${who}`;
}
