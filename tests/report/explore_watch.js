// Before the page: keeps what goes wrong.
window.errors = [];
window.addEventListener("error", e => window.errors.push(e.message));
window.addEventListener("unhandledrejection", e => window.errors.push(String(e.reason)));
for (const kind of ["error", "warn"]) {
  const plain = console[kind];
  console[kind] = (...words) => { window.errors.push(words.join(" ")); plain(...words); };
}
