// All code that a widget carries: the front end is the state of one model, which the widgets of a kernel share, and each
// page imports it once. A module of its own for every run of a cell would stay in the browser until the page is left.

/** Front ends of this page by their digest, for all kernels. @type {Map<string, Promise<any>>} */
const pages = (globalThis[Symbol.for("explorer-graphs front ends")] ??= new Map());

/** @param {{get: (name: string) => string}} shared model of explorer.view.widget.front_end.FrontEnd */
async function load(shared) {
  const address = URL.createObjectURL(new Blob([shared.get("script")], { type: "text/javascript" }));
  return import(address).finally(() => URL.revokeObjectURL(address));
}

/** Give the page, or the shadow root that an element is in, the style once: marimo and Panel show each output in a shadow root. */
function dress(el, shared) {
  const root = el.getRootNode();
  const home = root instanceof ShadowRoot ? root : document.head;
  const digest = shared.get("digest");
  if (home.querySelector(`style[data-explorer="${digest}"]`)) return;
  const style = document.createElement("style");
  style.dataset.explorer = digest;
  style.textContent = shared.get("style");
  home.append(style);
}

async function render({ model, el }) {
  const shared = await model.widget_manager.get_model(model.get("front_end").slice("IPY_MODEL_".length));
  const digest = shared.get("digest");
  if (!pages.has(digest)) pages.set(digest, load(shared));
  const loading = pages.get(digest);
  // A failure is the widget's own, anywidget shows it; the next widget tries again.
  loading.catch(() => pages.delete(digest));
  const module = await loading;
  dress(el, shared);
  // Where it is put into the page later, its root is not known before.
  if (!el.isConnected) requestAnimationFrame(() => dress(el, shared));
  return module.default.render({ model, el, shared });
}

/** Attributes that hold a whole recording as text. */
const LARGE = ["payload", "insides", "comparison"];

/** Let a model that is closed forget its recording: JupyterLab keeps the model of every run of a cell until the kernel is gone. */
function initialize({ model }) {
  return () => LARGE.filter((name) => model.get(name) !== undefined).forEach((name) => model.set(name, "", { silent: true }));
}

export default { initialize, render };
