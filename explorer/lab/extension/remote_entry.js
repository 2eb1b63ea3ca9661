// The JupyterLab extension, a hand-written module-federation container: JupyterLab loads this classic script, calls
// init() with the shared modules of the application, then get("./mime") and get("./extension") for the plugins.
(() => {
  const NAME = "explorer-graphs";
  const MIME = "application/vnd.explorer+json";
  const WIDGET = "application/vnd.jupyter.widget-view+json";
  /** ms to wait for a live widget; then the stored view is drawn, and replaced if the widget appears later. */
  const WIDGET_TIMEOUT = 400;
  const here = new URL(".", document.currentScript.src);
  let scope;

  /** Return the newest version of a module that the application shares. */
  async function shared(name) {
    const versions = scope[name];
    if (!versions) throw new Error(`${NAME}: JupyterLab does not share ${name}`);
    const newest = Object.keys(versions).sort((one, other) => one.localeCompare(other, undefined, { numeric: true })).at(-1);
    return (await versions[newest].get())();
  }

  let loaded;
  /** Return the front end, which is loaded once for all outputs and documents of the page. */
  function frontEnd() {
    loaded ??= Promise.all([import(new URL("explorer.js", here).href), styled("explorer.css"), styled("documents.css")]).then(([module]) => module);
    // After a failure, the next output loads it again.
    loaded.catch(() => (loaded = undefined));
    return loaded;
  }

  /** Load a style sheet from this folder; resolve when it is loaded or has failed. */
  function styled(name) {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: new URL(name, here).href });
    document.head.append(link);
    return new Promise((done) => (link.onload = link.onerror = done));
  }

  /** Return the class of renderers for stored views, based on Lumino's Widget. */
  function storedRenderer(Widget) {
    return class extends Widget {
      constructor() {
        super();
        this.addClass("jp-RenderedExplorer");
      }
      async renderModel(model) {
        const { addressOf, mount, restored } = await frontEnd();
        const payload = await restored(model.data[MIME]);
        if (this.isDisposed) return;
        if (this.view) this.view.update(payload);
        else this.view = mount(this.node, payload);
        this.start = addressOf(this.view);
      }
      /** Transfer the user's position in this view to the view in another element. */
      async handOver(element) {
        const { handOver } = await frontEnd();
        if (this.view) handOver(this.view, this.start, element);
      }
      dispose() {
        this.view?.destroy();
        this.view = null;
        super.dispose();
      }
    };
  }

  const modules = {
    "./mime": async () => {
      const { Widget } = await shared("@lumino/widgets");
      const Stored = storedRenderer(Widget);
      return {
        id: `${NAME}:mime`,
        description: "Renders views of Explorer without a kernel",
        rendererFactory: { safe: true, mimeTypes: [MIME], createRenderer: () => new Stored() },
        rank: 0,
        dataType: "json",
      };
    },
    /** Documents of model files, and notebook outputs with both a widget and a stored view: the widget is shown if its model exists, else the stored view. */
    "./extension": async () => {
      const [{ Widget, PanelLayout }, { INotebookTracker }] = await Promise.all([shared("@lumino/widgets"), shared("@jupyterlab/notebook")]);
      const Stored = storedRenderer(Widget);
      const attend = (registry) => {
        class LiveOrStored extends Widget {
          constructor(options) {
            super();
            this.options = options;
            this.layout = new PanelLayout();
          }
          async renderModel(model) {
            for (const child of [...this.layout.widgets]) child.dispose();
            const factory = model.trusted && model.data[WIDGET] && registry.getFactory(WIDGET);
            const appeared = factory ? this.#live(factory, model) : new Promise(() => {});
            const timeout = new Promise((done) => setTimeout(done, factory ? WIDGET_TIMEOUT : 0, "timeout"));
            const first = await Promise.race([appeared, timeout]);
            if (first !== "timeout") first.show();
            if (first !== "timeout" || this.isDisposed) return;
            const stored = new Stored();
            this.layout.addWidget(stored);
            appeared.then(async (live) => {
              if (this.isDisposed) return;
              live.show();
              await stored.handOver(live.node);
              stored.dispose();
            });
            await stored.renderModel(model);
          }
          /** Resolve with the widget of an output once its view is drawn; never if its model no longer exists. */
          async #live(factory, model) {
            const live = factory.createRenderer({ ...this.options, mimeType: WIDGET });
            live.hide();
            this.layout.addWidget(live);
            const drawn = new Promise((done) => {
              const observer = new MutationObserver(() => {
                if (!live.node.querySelector(".explorer-view")) return;
                observer.disconnect();
                done();
              });
              observer.observe(live.node, { childList: true, subtree: true });
            });
            live.renderModel(model);
            await drawn;
            return live;
          }
        }
        // Ranked before widgets (-10), since this renderer shows them itself.
        registry.addFactory({ safe: true, mimeTypes: [MIME], createRenderer: (options) => new LiveOrStored(options) }, -20);
      };
      const { documents } = await import(new URL("documents.js", here).href);
      const outputs = {
        id: `${NAME}:plugin`,
        description: "Shows a stored view of Explorer if its widget no longer exists",
        autoStart: true,
        requires: [INotebookTracker],
        activate: (app, tracker) => {
          tracker.forEach((panel) => attend(panel.content.rendermime));
          tracker.widgetAdded.connect((_, panel) => attend(panel.content.rendermime));
        },
      };
      return [outputs, ...(await documents(`${NAME}:documents`, shared, frontEnd))];
    },
  };

  (window._JUPYTERLAB ??= {})[NAME] = {
    init: (given) => void (scope = given),
    get: async (name) => {
      if (!modules[name]) throw new Error(`${NAME} has no module ${name}`);
      const plugin = await modules[name]();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
