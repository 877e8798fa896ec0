// Loads the pages of the site in a frame, and posts what is wrong with them.
const frame = document.querySelector("iframe"), faults = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
const page = () => frame.contentDocument;

async function open(path, width) {
  frame.style.width = `${width}px`;
  const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
  frame.src = path;
  await loaded;
  await wait(20);
}

// Wait until a condition holds, for at most five seconds.
async function until(what, condition) {
  for (let n = 0; n < 100; n++) {
    if (condition()) return;
    await wait(50);
  }
  faults.push(what);
}

function light(element) {
  const [r, g, b] = getComputedStyle(element).backgroundColor.match(/\d+/g).map(Number);
  return (r + g + b) / 765;
}

// The red, green, blue and opacity of a color in any notation, from 0 to 255.
const dot = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
const brush = dot.getContext("2d", {willReadFrequently: true}), known = new Map();
function rgba(color) {
  if (!known.has(color)) {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    known.set(color, [...brush.getImageData(0, 0, 1, 1).data]);
  }
  return known.get(color);
}

const over = ([r, g, b, a], back) => [r, g, b].map((x, i) => (x * a + back[i] * (255 - a)) / 255);

function background(element) {
  if (!element) return [255, 255, 255];
  const color = rgba(getComputedStyle(element).backgroundColor);
  return color[3] === 255 ? color : over(color, background(element.parentElement));
}

// Relative luminance and contrast as defined by WCAG 2.
function luminance(color) {
  const [r, g, b] = color.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// Report each pair of colors of a text and its background that WCAG 2 (AA) calls too pale.
const pale = new Set();
function checkContrast(path) {
  const root = page().documentElement, texts = page().createTreeWalker(page().body, NodeFilter.SHOW_TEXT);
  const shown = new Set(), still = page().createElement("style");
  still.textContent = "* { transition: none !important; }";
  page().head.append(still);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (texts.currentNode.data.trim() && !element.closest("svg, script, style") && element.checkVisibility({visibilityProperty: true})) shown.add(element);
  }
  for (const theme of ["light", "dark"]) {
    root.dataset.theme = theme;
    for (const element of shown) {
      const style = getComputedStyle(element), size = parseFloat(style.fontSize);
      const back = background(element), found = contrast(over(rgba(style.color), back), back);
      const asked = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
      const colors = `${style.color} on ${back.map(Math.round).slice(0, 3)} in the ${theme} mode`;
      if (found >= asked || pale.has(colors)) continue;
      pale.add(colors);
      const text = element.textContent.trim().slice(0, 30);
      faults.push(`${path}: contrast ${found.toFixed(2)} of "${text}" (${element.className || element.localName}): ${colors}`);
    }
  }
}

async function check(path) {
  await open(path, 390);
  // The theme lets the article scroll, not the page.
  const inner = page().querySelectorAll(".bd-main, .bd-content, .bd-article-container, .bd-article");
  for (const part of [page().scrollingElement, ...inner]) {
    const wide = part.scrollWidth - part.clientWidth;
    if (wide > 1) faults.push(`${path}: ${part.className || "page"} ${wide} px too wide at 390 px`);
  }
  const timing = frame.contentWindow.performance;
  const loads = [...timing.getEntriesByType("navigation"), ...timing.getEntriesByType("resource")];
  const bytes = loads.reduce((sum, load) => sum + load.encodedBodySize, 0);
  if (bytes > 2e6) faults.push(`${path}: ${(bytes / 1e6).toFixed(1)} MB`);
  for (const image of page().images) {
    if (!image.alt) faults.push(`${path}: no alt text: ${image.src}`);
    if (image.complete && !image.naturalWidth) faults.push(`${path}: not shown: ${image.src}`);
  }
  checkContrast(path);
}

async function use() {
  for (const words of ["uncertainty", "confidence interval", "missing values", "LCA"]) {
    await open(`search.html?q=${encodeURIComponent(words)}`, 1280);
    await until(`search finds nothing for ${words}`, () => page().querySelector("#search-results li a"));
  }
  await open("docs/guide/labels.html", 1280);
  const next = page().querySelector("a.right-next");
  next.click();
  await until("the link to the next page does not lead there", () => page()?.URL === next.href);
  await open("docs/guide/labels.html", 390);
  page().querySelector(".primary-toggle").click();
  await until("the menu does not open at 390 px", () => page().querySelector("#pst-primary-sidebar-modal[open] a"));
  await open("docs/index.html", 1280);
  for (const mode of ["dark", "light"]) {
    page().querySelector(`.theme-change-button[data-mode=${mode}]`).click();
    await until(`the background is not ${mode}`, () => (light(page().body) < 0.3) === (mode === "dark"));
    await open("docs/gallery.html", 1280);
    await until(`the next page is not ${mode}`, () => (light(page().body) < 0.3) === (mode === "dark"));
  }
}

async function explorer() {
  await open("explore.html", 390);
  const query = () => page().getElementById("query").textContent;
  await until("the explorer shows no neighbors", () => page().querySelector("#neighbors tr"));
  const wide = page().scrollingElement.scrollWidth;
  if (wide > 390) faults.push(`explorer: ${wide} px wide at 390 px`);
  const before = query(), row = page().querySelector("#neighbors tr[tabindex]");
  row.focus();
  row.dispatchEvent(new frame.contentWindow.KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  await until("Enter on a neighbor does not make it the query", () => query() !== before);
  await open("explore.html?again#row=5", 1280);
  await until("the explorer does not show the row of its address", () => query().startsWith("Row 5,"));
}

(async () => {
  try {
    for (const path of pages) await check(path);
    await use();
    await explorer();
  } catch (error) {
    faults.push(`${frame.src}: ${error}`);
  }
  await fetch("faults", {method: "POST", body: JSON.stringify(faults)});
})();
