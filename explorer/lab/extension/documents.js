// Model files as JupyterLab documents: a tab shows the view that the Jupyter server plans (server_extension.py).

const FACTORY = "Explorer";
const PROVIDER = "explorer-graphs-unread";
/** ms between two checks of a file that a tab shows; a changed file is read once it is unchanged for this time. */
const POLL_INTERVAL = 2000;
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><g class="jp-icon3" fill="none" stroke="#616161" stroke-width="1.4">
  <path d="M4.5 5.5v2.2l3.5 2.1m3.5-4.3v2.2L8 9.8"/><rect x="2" y="1.5" width="5" height="4" rx="1"/><rect x="9" y="1.5" width="5" height="4" rx="1"/><rect x="5.5" y="10" width="5" height="4" rx="1"/></g></svg>`;

/** The file to read for the file in a tab; for the weights of a PNNX model this is its graph, whose name differs only in the extension. @param {string} path */
const graphOf = (path) => path.replace(/\.pnnx\.bin$/, ".pnnx.param");

/** @typedef {{given: string, rule: string, fix: string}} Problem */

/** Error for a file that cannot be shown. */
class FileError extends Error {
  /** @param {Problem} problem */
  constructor(problem) {
    super([problem.given, problem.rule, problem.fix].filter(Boolean).join("\n"));
    this.problem = problem;
  }
}

/** Return the last line of the server's response, which is the result; all lines are JSON. */
async function resultOf(response, onProgress) {
  if (!response.body) throw new FileError({ given: "the server sent no response", rule: "the connection must not be interrupted", fix: "reload the file" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let [last, parts] = ["", []];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return parts.join("") || last;
    const [end, ...lines] = value.split("\n");
    parts.push(end);
    for (const begin of lines) {
      const line = parts.join("");
      parts = [begin];
      if (line.startsWith('{"progress"')) onProgress(JSON.parse(line).progress);
      if (line) last = line;
    }
  }
}

/** Client of the Jupyter server extension. */
class Client {
  constructor({ ServerConnection }, { URLExt }, settings) {
    this.makeRequest = (url, init) => ServerConnection.makeRequest(url, init, settings);
    this.address = (path) => URLExt.join(settings.baseUrl, "explorer/view", URLExt.encodeParts(path));
  }

  /** @param {string} path @param {{query?: string, signal?: AbortSignal, onProgress?: (progress: any) => void}} options */
  async request(path, { query = "", signal, onProgress = (progress) => {} }) {
    const response = await this.makeRequest(this.address(path) + query, { signal });
    const text = await resultOf(response, onProgress);
    const result = parsed(text);
    if (result?.problem) throw new FileError(result.problem);
    if (response.ok && result) return result;
    throw new FileError(
      response.status === 404
        ? { given: "the Jupyter server does not have explorer", rule: "explorer must also be installed in the environment of the Jupyter server", fix: 'pip install "explorer-graphs[lab]" there, and restart the server' }
        : { given: `the Jupyter server responded with ${response.status} ${response.statusText}`, rule: result?.message ?? "", fix: "" },
    );
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // an error page of the server
  }
}

function element(tag, className, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/** The content of a tab: a message above the view, or instead of it. */
function contentClass(Widget, Poll) {
  return class extends Widget {
    /** @param {any} context @param {Client} client @param {any} contents @param {() => Promise<any>} frontEnd */
    constructor(context, client, contents, frontEnd) {
      super();
      Object.assign(this, { context, client, contents, frontEnd });
      this.addClass("explorer-file");
      this.node.tabIndex = -1;
      this.message = element("div", "explorer-file-message");
      this.place = element("div", "explorer-file-view");
      this.node.append(this.message, this.place);
      this.seen = this.read = "";
      context.ready.then(() => this.isDisposed || this.load());
      context.fileChanged.connect(() => context.isReady && this.load());
      this.poll = new Poll({ factory: () => this.#check(), frequency: { interval: POLL_INTERVAL, backoff: true, max: 30_000 }, standby: () => !this.isVisible || document.hidden, name: "explorer-graphs:file" });
    }

    /** Request the file's view from the server and show it, replacing the current view. */
    async load() {
      this.reading?.abort();
      const reading = (this.reading = new AbortController());
      const { path } = this.context;
      const name = path.split("/").at(-1);
      this.#showStatus(`Reading ${name} …`);
      try {
        this.read = this.seen = await this.#stamp();
        const onProgress = ({ phase, what, done, total }) => this.reading === reading && this.#showStatus(`${name}: ${phase} ${what}${total ? ` (${done} of ${total})` : ""} …`);
        const [{ payload }, { mount }] = await Promise.all([this.client.request(this.contents.localPath(graphOf(path)), { signal: reading.signal, onProgress }), this.frontEnd()]);
        if (this.isDisposed || this.reading !== reading) return;
        this.message.replaceChildren();
        // Step and selection are kept if only weights or the plan have changed, but not the graph.
        const layout = JSON.stringify(payload.layout);
        if (this.view && layout === this.drawn) return this.view.update(payload);
        this.view?.destroy();
        this.drawn = layout;
        this.view = mount(this.place, payload, { onValue: (node) => this.#value(node) });
        if (this.node === document.activeElement) this.#focus();
      } catch (error) {
        if (this.reading === reading && !this.isDisposed && error.name !== "AbortError") this.#showError(error);
      }
    }

    /** Show the value of a leaf that the user selected. */
    async #value(node) {
      const result = await this.client.request(this.contents.localPath(graphOf(this.context.path)), { query: `?node=${node}` }).catch((error) => ({ value: { summary: null, problem: error.message } }));
      this.view?.leafValues.take({ node, ...result.value });
    }

    async #stamp() {
      const { last_modified: time, size } = await this.contents.get(this.context.path, { content: false });
      return `${time} ${size}`;
    }

    /** Read the file again if it has changed and was unchanged in the last two checks. */
    async #check() {
      const stamp = await this.#stamp();
      const isStill = stamp === this.seen;
      this.seen = stamp;
      if (isStill && this.read && stamp !== this.read) await this.load();
    }

    #showStatus(text) {
      this.message.replaceChildren(element("p", "explorer-file-progress", text));
      this.message.setAttribute("role", "status");
    }

    #showError(error) {
      const { given, rule, fix } = error.problem ?? { given: String(error.message ?? error), rule: "", fix: "" };
      const parts = [element("p", "explorer-file-given", given)];
      if (rule) parts.push(element("p", "explorer-file-rule", `rule: ${rule}`));
      if (fix) parts.push(element("p", "explorer-file-fix", `fix: ${fix}`));
      this.message.replaceChildren(...parts);
      this.message.setAttribute("role", "alert");
    }

    #focus() {
      this.place.querySelector("[data-key][tabindex='0']")?.focus({ preventScroll: true });
    }

    onActivateRequest() {
      this.node.focus();
      this.#focus();
    }

    dispose() {
      if (this.isDisposed) return;
      this.poll.dispose();
      this.reading?.abort();
      this.view?.destroy();
      this.view = null;
      super.dispose();
    }
  };
}

/**
 * Return the plugin that opens model files; none for versions of JupyterLab that would fetch the whole files.
 * @param {string} id @param {(name: string) => Promise<any>} shared returns a module of JupyterLab @param {() => Promise<any>} frontEnd returns explorer's front end
 */
export async function documents(id, shared, frontEnd) {
  // Types with "asked" belong to other programs too, so they open in explorer only with "Open With".
  // @ts-ignore TS1470: the compiler assumes CommonJS for a file without package.json, but JupyterLab loads a module
  const types = await (await fetch(new URL("document_types.json", import.meta.url))).json();
  const names = ["@lumino/widgets", "@lumino/polling", "@jupyterlab/application", "@jupyterlab/apputils", "@jupyterlab/coreutils", "@jupyterlab/docregistry", "@jupyterlab/services", "@jupyterlab/ui-components"];
  const [{ Widget }, { Poll }, { ILayoutRestorer }, { WidgetTracker }, coreutils, { ABCWidgetFactory, DocumentWidget }, services, { LabIcon, ToolbarButton, refreshIcon }] = await Promise.all(names.map(shared));
  if (!services.IDefaultDrive) {
    console.warn("explorer-graphs: opening model files with a double click requires JupyterLab 4.4 or later");
    return [];
  }
  const Content = contentClass(Widget, Poll);

  const activate = (app, drive, restorer) => {
    const { docRegistry, serviceManager } = app;
    const icon = new LabIcon({ name: "explorer-graphs:model", svgstr: ICON });
    for (const { asked, ...type } of types) if (type.name !== "json") docRegistry.addFileType({ ...type, contentType: "file", icon });
    // The server reads the file, so the browser does not fetch it; nothing is saved.
    const get = async (path) => ({ ...(await drive.get(path, { content: false })), writable: false, content: null });
    drive.contentProviderRegistry.register(PROVIDER, { get });
    const client = new Client(services, coreutils, serviceManager.serverSettings);

    /** @type {any} */
    const Factory = class extends ABCWidgetFactory {
      createNewWidget(context) {
        const content = new Content(context, client, serviceManager.contents, frontEnd);
        const widget = new DocumentWidget({ content, context });
        widget.toolbar.addItem("reload", new ToolbarButton({ icon: refreshIcon, label: "Reload", tooltip: "Read the file again", onClick: () => content.load() }));
        widget.addClass("explorer-document");
        widget.title.icon = icon;
        return widget;
      }
    };
    const names = (chosen) => chosen.map(({ name }) => name);
    const factory = new Factory({ name: FACTORY, modelName: "base64", fileTypes: names(types), defaultFor: names(types.filter(({ asked }) => !asked)), readOnly: true, contentProviderId: PROVIDER });
    docRegistry.addWidgetFactory(factory);
    const tracker = new WidgetTracker({ namespace: "explorer-graphs" });
    factory.widgetCreated.connect((_, widget) => {
      tracker.add(widget);
      widget.context.pathChanged.connect(() => tracker.save(widget));
    });
    restorer?.restore(tracker, { command: "docmanager:open", args: ({ context }) => ({ path: context.path, factory: FACTORY }), name: ({ context }) => context.path });
  };
  return [{ id, description: "Opens model files", autoStart: true, requires: [services.IDefaultDrive], optional: [ILayoutRestorer], activate }];
}
