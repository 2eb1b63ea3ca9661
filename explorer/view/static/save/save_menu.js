// The menu that saves a view as an image, a page or data.

import { html, say } from "../dom.js";
import { Menu, place } from "../controls/menu.js";
import { labelledButton } from "../controls/toolbar.js";
import { isOwnPage, pageSource } from "./page_source.js";
import { picture, pixels } from "./picture.js";

/** @typedef {{extension: string, label: string, type: string, kernel: boolean, content?: () => (string | Blob | Promise<string | Blob>)}} Form kernel: whether the kernel writes it; a form without content is not available here, and its label states where it is */

/** Formats in which a view is saved, and the message if this fails. */
export class SaveMenu {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.forms = this.#forms();
    // The menu includes unavailable forms, because their labels state where they are available.
    this.items = this.forms.map((form) => html("button", { type: "button", role: "menuitem", "aria-disabled": !form.content && "true", click: () => form.content && this.#save(form) }, html("b", {}, form.extension.slice(1).toUpperCase()), html("span", { class: "ex-soft" }, form.label)));
    this.problem = html("div", { class: "ex-menu ex-problem", role: "alert", popover: "auto" });
    this.button = labelledButton("save", "save: picture, page …", "", () => {});
    this.menu = new Menu(this.button, this.items, { name: "save", role: "menu", opening: () => this.#opening() });
    this.root = this.menu.root;
  }

  /** @returns {Form[]} */
  #forms() {
    const { view } = this;
    const { onFile } = view.callbacks;
    const drawn = () => picture(view);
    /** @type {Form[]} */ const forms = [
      { extension: ".svg", label: "picture of this step, to scale", type: "image/svg+xml", kernel: false, content: () => drawn().text },
      { extension: ".png", label: "picture of this step, in pixels", type: "image/png", kernel: false, content: () => pixels(drawn()) },
    ];
    const page = { extension: ".html", label: "page with all steps", type: "text/html" };
    if (onFile) forms.push({ ...page, kernel: true, content: () => onFile(".html") });
    else if (isOwnPage()) forms.push({ ...page, kernel: false, content: pageSource });
    const data = { extension: ".json", type: "application/json" };
    if (onFile) forms.push({ ...data, label: "data: explorer diff compares it", kernel: true, content: () => onFile(".json") });
    // A page has only the display form of a recording, which cannot be loaded again.
    else forms.push({ ...data, label: 'data: by Python, view.save("model.json")', kernel: false });
    return forms;
  }

  #opening() {
    this.forms.forEach(({ kernel }, index) => (this.items[index].disabled = kernel && this.view.root.classList.contains("ex-no-kernel")));
    // The button is not visible any more when saving has failed.
    place(this.problem, this.button);
  }

  /** @param {Form} form */
  async #save({ extension, type, content }) {
    this.root.hidePopover();
    this.button.closest(".ex-menu")?.hidePopover();
    try {
      const file = await content();
      download(`${fileName(this.view.trace.recording.title)}${extension}`, file instanceof Blob ? file : new Blob([file], { type }));
    } catch (error) {
      say(this.problem, `No ${extension.slice(1).toUpperCase()} was saved: ${error.message}`);
      this.problem.showPopover();
    }
  }
}

/** Return a file name made from a title, which may contain any characters. */
export function fileName(title) {
  const plain = title.replace(/[^\p{L}\p{N}._]+/gu, "-").replace(/^[.-]+|[.-]+$/g, "");
  return [...plain].slice(0, 80).join("") || "recording";
}

function download(name, blob) {
  const address = URL.createObjectURL(blob);
  html("a", { href: address, download: name }).click();
  // The browser has begun to read by then, so the URL and its data can be released.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
