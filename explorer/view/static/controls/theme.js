// Light or dark theme: as requested, else as in the environment.

import { put } from "../dom.js";

/** Theme of one view. */
export class Theme {
  /** @param {HTMLElement} root @param {string} wanted "auto", "light" or "dark" @param {() => void} painted after the colours changed */
  constructor(root, wanted, painted) {
    this.root = root;
    this.wanted = wanted;
    this.painted = painted;
    this.end = watchTheme(() => this.paint());
  }

  /** @param {string} wanted "auto", "light" or "dark" */
  set(wanted) {
    this.wanted = wanted;
    this.paint();
  }

  /** Switch between dark and light. */
  turn() {
    this.set(themeNow(this.wanted) === "dark" ? "light" : "dark");
  }

  /** Apply the theme. */
  paint() {
    const followed = this.wanted === "auto" && Boolean(document.body.dataset.jpThemeLight);
    put(this.root, "data-theme", themeNow(this.wanted));
    put(this.root, "data-follow", followed && "jupyterlab");
    this.painted();
  }
}

/** Return "light" or "dark": as requested, else as in JupyterLab or VS Code, else as the page declares by `color-scheme` (marimo), else as in the system. */
function themeNow(wanted) {
  if (wanted === "light" || wanted === "dark") return wanted;
  const { dataset, classList } = document.body;
  if (dataset.jpThemeLight) return dataset.jpThemeLight === "false" ? "dark" : "light";
  if (classList.contains("vscode-dark") || classList.contains("vscode-high-contrast")) return "dark";
  if (classList.contains("vscode-light")) return "light";
  const { colorScheme } = getComputedStyle(document.body);
  if (colorScheme === "light" || colorScheme === "dark") return colorScheme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Call `changed` whenever the environment may have changed its theme. Return a function that ends this. */
function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "data-theme", "class"] });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", changed);
  };
}
