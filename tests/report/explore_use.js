// After the page: uses it, and writes down what it showed.
(async () => {
  const said = {};
  const words = id => document.getElementById(id).textContent;
  const rows = () => [...document.querySelectorAll("#neighbors tr")]
    .filter(r => !r.hidden).map(r => [...r.cells].map(c => c.textContent));
  await ready;
  said.first = {query: words("query"), rows: rows()};
  const plot = document.getElementById("points");
  const curve = plot.data.findIndex(t => t.customdata && t.customdata.includes(3));
  const place = plot.data[curve].customdata.indexOf(3);
  Plotly.Fx.hover(plot, [{curveNumber: curve, pointNumber: place}]);
  said.hover = [...plot.querySelectorAll(".hoverlayer text")].map(t => t.textContent).join(" ");
  // A real click: where the point is drawn.
  const box = plot.getBoundingClientRect(), full = plot._fullLayout;
  const x = box.left + full.xaxis._offset + full.xaxis.d2p(plot.data[curve].x[place]);
  const y = box.top + full.yaxis._offset + full.yaxis.d2p(plot.data[curve].y[place]);
  const target = plot.querySelector(".nsewdrag");
  for (const type of ["mousemove", "mousedown", "mouseup"]) {
    target.dispatchEvent(new MouseEvent(type, {clientX: x, clientY: y, bubbles: true, view: window}));
    await new Promise(done => setTimeout(done, 100));
  }
  said.clicked = {query: words("query"), rows: rows()};
  const select = document.getElementById("colour");
  select.value = "1";
  select.dispatchEvent(new Event("change"));
  await new Promise(done => setTimeout(done, 100));
  said.colour = plot.data.map(t => t.marker?.colorbar?.title?.text).filter(Boolean);
  said.bar = plot.querySelector(".colorbar").getBoundingClientRect().top;
  said.buttons = plot.querySelector(".modebar").getBoundingClientRect().bottom;
  const row = document.getElementById("row");
  row.value = "99";
  row.dispatchEvent(new Event("change"));
  said.last = words("query");
  said.address = location.hash;
  for (const name of ["back", "further"]) {
    history.back();
    await new Promise(done => addEventListener("popstate", () => setTimeout(done, 50), {once: true}));
    said[name] = [location.hash, words("query"), select.value];
  }
  said.errors = window.errors;
  const out = document.createElement("pre");
  out.id = "said";
  out.textContent = JSON.stringify(said);
  document.body.append(out);
})();
