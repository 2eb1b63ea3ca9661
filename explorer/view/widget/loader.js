// The only code in each widget. The front end is the state of one model shared by all widgets of a kernel, and each page
// imports it once. A separate module for every run of a cell would stay in the browser until the page is closed.

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
  // Anywidget shows the failure in this widget; the next widget tries again.
  loading.catch(() => pages.delete(digest));
  const module = await loading;
  dress(el, shared);
  // Where it is put into the page later, its root is not known before.
  if (!el.isConnected) requestAnimationFrame(() => dress(el, shared));
  return module.default.render({ model, el, shared });
}

/** Traits that contain a whole recording as JSON. */
const LARGE = ["payload", "insides", "comparison"];

/** Make a closed model drop its recording, because JupyterLab keeps the model of every run of a cell until the kernel ends. */
function initialize({ model }) {
  return () => LARGE.filter((name) => model.get(name) !== undefined).forEach((name) => model.set(name, "", { silent: true }));
}

export default { initialize, render };
