// Light or dark: as asked for, else as the surroundings have it.

import { put } from "../dom.js";

/** Keeps a view in its theme. */
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

  /** Turn dark into light and light into dark. */
  turn() {
    this.set(themeNow(this.wanted) === "dark" ? "light" : "dark");
  }

  /** Take the theme on. */
  paint() {
    const followed = this.wanted === "auto" && Boolean(document.body.dataset.jpThemeLight);
    put(this.root, "data-theme", themeNow(this.wanted));
    put(this.root, "data-follow", followed && "jupyterlab");
    this.painted();
  }
}

/** "light" or "dark": as asked for, else as JupyterLab, VS Code or the system has it. */
function themeNow(wanted) {
  if (wanted === "light" || wanted === "dark") return wanted;
  const { dataset, classList } = document.body;
  if (dataset.jpThemeLight) return dataset.jpThemeLight === "false" ? "dark" : "light";
  if (classList.contains("vscode-dark") || classList.contains("vscode-high-contrast")) return "dark";
  if (classList.contains("vscode-light")) return "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Call back whenever the surroundings may have changed their theme; returns the act that ends it. */
function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", changed);
  };
}
