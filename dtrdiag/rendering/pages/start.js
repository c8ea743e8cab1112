// What is done with a page once it is there.
async function start() {
  for (const button of all(".commands .copy")) {
    copies(button, $("code", button.parentElement).textContent);
  }
  all("figure.table table").forEach(sortable);
  for (const figure of all("figure.drawing")) if ($("svg", figure)) new Drawing(figure);
  const charts = all("figure.chart").map((figure) => new Chart(figure));
  for (const chart of charts) {
    await chart.draw();
    // Between two charts, whatever was clicked meanwhile has its turn.
    await new Promise((done) => setTimeout(done));
  }
  document.documentElement.dataset.ready = "yes";
}

start();
