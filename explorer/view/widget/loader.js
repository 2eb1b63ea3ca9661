// All code that a widget carries: the front end is the state of one model, which the widgets of a kernel share, and each
// page imports it once. A module of its own for every run of a cell would stay in the browser until the page is left.

/** Front ends of this page by their digest, for all kernels. @type {Map<string, Promise<any>>} */
const pages = (globalThis[Symbol.for("explorer-graphs front ends")] ??= new Map());

/** @param {{get: (name: string) => string}} shared model of explorer.view.widget.front_end.FrontEnd */
async function load(shared) {
  const address = URL.createObjectURL(new Blob([shared.get("script")], { type: "text/javascript" }));
  const module = await import(address).finally(() => URL.revokeObjectURL(address));
  const style = document.createElement("style");
  style.textContent = shared.get("style");
  document.head.append(style);
  return module;
}

async function render({ model, el }) {
  const shared = await model.widget_manager.get_model(model.get("front_end").slice("IPY_MODEL_".length));
  const digest = shared.get("digest");
  if (!pages.has(digest)) pages.set(digest, load(shared));
  const loading = pages.get(digest);
  // A failure is the widget's own, anywidget shows it; the next widget tries again.
  loading.catch(() => pages.delete(digest));
  return (await loading).default.render({ model, el, shared });
}

/** Attributes that hold a whole recording as text. */
const LARGE = ["payload", "insides", "comparison"];

/** Let a model that is closed forget its recording: JupyterLab keeps the model of every run of a cell until the kernel is gone. */
function initialize({ model }) {
  return () => LARGE.filter((name) => model.get(name) !== undefined).forEach((name) => model.set(name, "", { silent: true }));
}

export default { initialize, render };
