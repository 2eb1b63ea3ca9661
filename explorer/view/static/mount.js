// Entry points of the front end: `mount` shows a view in any page; the default export is a Jupyter widget (anywidget).

import { HANDOVER, addressOf, handOver, keepAddress, restore } from "./controls/view_address.js";
import { followLinks } from "./controls/prose_links.js";
import { Pair } from "./compare/pair.js";
import { Totals } from "./data/totals.js";
import { restored } from "./data/stored.js";
import { Trace } from "./data/trace.js";
import { takeFallback } from "./save/page_source.js";
import { View } from "./view.js";

/**
 * Show a payload (explorer/view/payload/view_payload.py) in an element.
 * @param {HTMLElement} element @param {any} payload @param {import("./view.js").Callbacks} [callbacks]
 * @returns {View}
 */
function mount(element, payload, callbacks = {}) {
  followLinks(element);
  return new View(element, payload, callbacks);
}

/**
 * Show two payloads side by side (explorer/view/compare/pair_payload.py).
 * @param {HTMLElement} element @param {{comparison: any, payloads: any[], tied?: string}} data
 * @returns {Pair}
 */
function mountPair(element, data, callbacks = {}) {
  followLinks(element);
  return new Pair(element, data, callbacks);
}

/**
 * Views that follow a change once all its traits are set, or null. Models set one trait at a time (marimo's have no other way),
 * and a view that received a step without its stage would save a mixture. @type {(() => void)[] | null}
 */
let waiting = null;

/** Save changed traits with the revisions that the page has seen. Newer values from Python take precedence (explorer.view.widget.widget). */
function saveChanged(model, values) {
  const news = Object.entries(values).filter(([name, value]) => JSON.stringify(model.get(name)) !== JSON.stringify(value));
  if (!news.length) return;
  const [revisions, seen] = [model.get("revisions"), { ...model.get("seen") }];
  for (const [name] of news) seen[name] = revisions[name] ?? 0;
  // Send `seen` with every change, even if it is unchanged, because changes of a trait by other widgets come without it.
  const acts = (waiting = []);
  for (const [name, value] of [...news, ["seen", { ...seen, changes: (seen.changes ?? 0) + 1 }]]) model.set(name, value);
  waiting = null;
  for (const act of acts) act();
  model.save_changes();
}

/** Return the callbacks with which a view sets the traits of explorer.view.widget.widget.GraphView. */
function telling(model) {
  const save = (values) => saveChanged(model, values);
  return {
    onState: save,
    onSelect: (selected) => save({ selected }),
    onOpen: (boxes) => save({ open_boxes: boxes.sort((a, b) => a - b) }),
    onPlace: (boxes) => model.send({ kind: "place", boxes }),
    onValue: (node) => model.send({ kind: "value", node }),
    onTurn: (direction) => save({ direction }),
    onPredict: (predicting) => save({ predicting }),
    onTab: () => openTab(model),
    onFile: (extension) => written(model, extension),
  };
}

/** Traits stored in an exported file (explorer.view.export.writers.ViewState). */
const SEEN = ["theme", "step", "stage", "selected", "open_boxes", "direction"];

/** Return the contents that the kernel writes for a file extension. @param {string} extension @returns {Promise<string>} */
function written(model, extension) {
  return new Promise((done) => {
    const take = (message) => {
      if (message?.kind !== "file" || message.extension !== extension) return;
      model.off("msg:custom", take);
      done(message.text);
    };
    model.on("msg:custom", take);
    model.send({ kind: "file", extension, state: Object.fromEntries(SEEN.map((name) => [name, model.get(name)])) });
  });
}

/** Open the page that the kernel writes. The tab opens during the click event, as browsers require. */
function openTab(model) {
  const tab = window.open("", "_blank");
  if (!tab) return;
  tab.document.title = "explorer";
  tab.document.body.textContent = "The kernel writes this page …";
  written(model, ".html").then((page) => tab.location.replace(URL.createObjectURL(new Blob([page], { type: "text/html" }))));
}

/** Make a view follow its traits. Return a function that ends this. */
function follow(model, view) {
  const acts = {
    step: (step) => view.go(step, view.timeline.named(model.get("stage"), view.now.stage)),
    stage: (stage) => view.goStage(stage, model.get("step")),
    selected: (node) => node !== view.selection.node && view.selection.select(node, true),
    open_boxes: (boxes) => boxes !== null && view.opening.set(boxes),
    theme: (theme) => view.theme.set(theme),
    predicting: (isOn) => (isOn ? view.prediction.begin() : view.prediction.end()),
    payload: (payload) => view.update(JSON.parse(payload)),
    // From explorer.view.widget.preview.PreviewView: boxes laid out while the first view was sent.
    insides: (insides) => {
      view.opening.pending.isPlanning = insides !== undefined;
      if (insides !== undefined) view.opening.pending.take(JSON.parse(insides).boxes ?? []);
    },
  };
  for (const name of ["insides", "open_boxes", "theme", "step", "selected", "predicting"]) acts[name](model.get(name));
  /** @type {[string, (message?: any) => void][]} */
  const listeners = Object.entries(acts).map(([name, act]) => {
    // A closed model drops its recording (explorer/view/widget/loader.js), and marimo's models report this.
    const catchUp = () => model.get(name) !== "" && act(model.get(name));
    return [`change:${name}`, () => (waiting ? waiting.push(catchUp) : catchUp())];
  });
  listeners.push([
    "msg:custom",
    (message) => {
      if (message?.kind === "focus") view.selection.visit(message.node);
      else if (message?.kind === "placed") view.opening.pending.take(message.boxes);
      else if (message?.kind === "trace") view.selection.traced(message.direction);
      else if (message?.kind === "heat") view.heat.choose(message.name);
      else if (message?.kind === "value") view.leafValues.take(message);
    },
  ]);
  return listen(model, listeners);
}

function listen(model, listeners) {
  for (const [event, listener] of listeners) model.on(event, listener);
  return () => {
    for (const [event, listener] of listeners) model.off(event, listener);
  };
}

/** Make views show when their kernel has stopped, if their models report it (marimo's do not); `shared` is the raw model of explorer.view.widget.front_end. Return a function that ends this. */
function watchKernel(shared, views) {
  const tell = () => views.forEach((view) => view.root.classList.toggle("ex-no-kernel", shared.comm_live === false));
  tell();
  return listen(shared, [["comm_live_update", tell]]);
}

/** Bind a view to the traits of explorer.view.widget.widget.GraphView in both directions, or two views to explorer.view.compare.side_by_side. */
function render({ model, el, shared }) {
  if (model.get("comparison") !== undefined) return renderPair(model, el, shared);
  const view = mount(el, JSON.parse(model.get("payload")), telling(model));
  const ends = [follow(model, view), watchKernel(shared, [view])];
  return () => {
    for (const end of ends) end();
    view.destroy();
  };
}

async function renderPair(model, el, shared) {
  const models = await Promise.all(["before", "after"].map((side) => model.widget_manager.get_model(model.get(side).slice("IPY_MODEL_".length))));
  const data = { comparison: JSON.parse(model.get("comparison")), payloads: models.map((each) => JSON.parse(each.get("payload"))), tied: model.get("tied") };
  const onTied = (tied) => {
    model.set("tied", tied);
    model.save_changes();
  };
  const pair = mountPair(el, data, { sides: models.map(telling), onTied });
  const ends = [...pair.views.map((view, side) => follow(models[side], view)), watchKernel(shared, pair.views)];
  ends.push(
    listen(model, [
      ["change:tied", () => pair.tieBy(model.get("tied"))],
      ["change:comparison", () => model.get("comparison") && pair.adopt(JSON.parse(model.get("comparison")))],
    ]),
  );
  return () => {
    for (const end of ends) end();
    pair.destroy();
  };
}

export { HANDOVER, Totals, Trace, addressOf, followLinks, handOver, keepAddress, mount, mountPair, restore, restored, takeFallback };
export default { render };
