// The explorer's front end: `mount` puts it into any page, the default export makes it a Jupyter widget (anywidget).

import { Placement } from "./place.js";
import { sentence } from "./reason.js";
import { Story } from "./story.js";
import { Trace } from "./trace.js";
import { View } from "./view.js";

/**
 * Show a payload (explorer/view/payload.py) in an element.
 * @param {HTMLElement} element @param {any} payload @param {import("./view.js").Callbacks} [callbacks]
 * @returns {View}
 */
function mount(element, payload, callbacks = {}) {
  return new View(element, payload, callbacks);
}

/** Bind a view to the traits of explorer.view.widget.GraphView, both ways. */
function render({ model, el }) {
  const save = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const view = mount(el, JSON.parse(model.get("payload")), {
    onState: save,
    onSelect: (selected) => save({ selected }),
    onOpen: (boxes) => save({ open_boxes: boxes.sort((one, other) => one - other) }),
    onPlace: (boxes) => model.send({ kind: "place", boxes }),
  });
  const follow = {
    step: (step) => view.go(step),
    stage: (stage) => view.goStage(stage),
    selected: (node) => node !== view.selected && view.select(node, true),
    open_boxes: (boxes) => boxes !== null && view.opening.set(boxes),
    theme: (theme) => view.theme.set(theme),
    payload: (payload) => view.update(JSON.parse(payload)),
  };
  for (const name of ["open_boxes", "theme", "step", "selected"]) follow[name](model.get(name));
  const listeners = Object.entries(follow).map(([name, act]) => [`change:${name}`, () => act(model.get(name))]);
  const onMessage = (message) => {
    if (message?.kind === "focus") view.visit(message.node);
    else if (message?.kind === "placed") view.opening.pending.take(message.boxes);
  };
  for (const [event, listener] of listeners) model.on(event, listener);
  model.on("msg:custom", onMessage);
  return () => {
    for (const [event, listener] of listeners) model.off(event, listener);
    model.off("msg:custom", onMessage);
    view.destroy();
  };
}

export { Placement, Story, Trace, mount, sentence };
export default { render };
