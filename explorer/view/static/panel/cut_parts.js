// The call and the command that cut the selected part out of a model's file.

import { cutCall, cutCommand, FileParts } from "../data/file_part.js";
import { heading } from "./elements.js";
import { html } from "../dom.js";

/** Panel parts for cutting. */
export class CutParts {
  /** @param {import("../data/trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    /** @type {FileParts | undefined} */ this.parts = undefined;
  }

  /** Return the ways to cut out the operators of some nodes, or of two groups of nodes and what is between them. @param {number[]} nodes @param {number[]} [others] @returns {Element[]} */
  content(nodes, others) {
    if (!this.trace.recording.operators?.length) return [];
    this.parts ??= new FileParts(this.trace);
    const part = this.parts.part(nodes, others);
    if (!part) return [];
    const command = this.parts.file && cutCommand(this.parts.file, part);
    return [heading("cut out"), ...[cutCall(part), command].filter(Boolean).map(copyable)];
  }
}

/** Return a line of code with a button that copies it. @param {string} text */
function copyable(text) {
  const code = html("code", {}, text);
  const copy = async () => {
    getSelection().selectAllChildren(code);
    // Pages that are not served securely have no clipboard, so the reader copies the selection with the keyboard.
    await navigator.clipboard?.writeText(text).then(() => (button.textContent = "copied"), () => {});
  };
  const button = html("button", { class: "ex-link", type: "button", title: "copy this line", click: copy }, "copy");
  return html("div", { class: "ex-copyable" }, code, button);
}
