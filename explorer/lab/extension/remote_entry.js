// The JupyterLab extension, a module-federation container written by hand: JupyterLab loads this classic script, calls
// init() with the modules that the application shares, then get("./mime") and get("./extension") for its plugins.
(() => {
  const NAME = "explorer-graphs";
  const MIME = "application/vnd.explorer+json";
  const WIDGET = "application/vnd.jupyter.widget-view+json";
  /** ms within which a living widget has answered; what is stored is drawn after that, and replaced if it comes later. */
  const PATIENCE = 400;
  const here = new URL(".", document.currentScript.src);
  let scope;

  /** The newest version of a module that the application shares. */
  async function shared(name) {
    const versions = scope[name];
    if (!versions) throw new Error(`${NAME}: JupyterLab shares no ${name}`);
    const newest = Object.keys(versions).sort((one, other) => one.localeCompare(other, undefined, { numeric: true })).at(-1);
    return (await versions[newest].get())();
  }

  let loaded;
  /** The front end, loaded once for all outputs and documents of the page. */
  function frontEnd() {
    loaded ??= Promise.all([import(new URL("explorer.js", here).href), styled("explorer.css"), styled("documents.css")]).then(([module]) => module);
    // A server that could not be reached once is asked again for the next output.
    loaded.catch(() => (loaded = undefined));
    return loaded;
  }

  /** Resolves when a style sheet of this folder is there, or cannot be had. */
  function styled(name) {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: new URL(name, here).href });
    document.head.append(link);
    return new Promise((done) => (link.onload = link.onerror = done));
  }

  /** A renderer of stored views, on top of Lumino's Widget. */
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
      /** Let the view in another element go on where a reader is in this one. */
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
    /** Documents of models' files; and in notebooks outputs that hold a widget too: it is shown while its model lives, else what is stored. */
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
            const came = factory ? this.#live(factory, model) : new Promise(() => {});
            const waited = new Promise((done) => setTimeout(done, factory ? PATIENCE : 0, "waited"));
            const first = await Promise.race([came, waited]);
            if (first !== "waited") first.show();
            if (first !== "waited" || this.isDisposed) return;
            const stored = new Stored();
            this.layout.addWidget(stored);
            came.then(async (live) => {
              if (this.isDisposed) return;
              live.show();
              await stored.handOver(live.node);
              stored.dispose();
            });
            await stored.renderModel(model);
          }
          /** Resolves with the widget of an output when its view has been drawn; where its model is gone, never. */
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
        // Before widgets, whose rank is -10: this renderer shows them itself.
        registry.addFactory({ safe: true, mimeTypes: [MIME], createRenderer: (options) => new LiveOrStored(options) }, -20);
      };
      const { documents } = await import(new URL("documents.js", here).href);
      const outputs = {
        id: `${NAME}:plugin`,
        description: "Shows a view of Explorer where its widget is gone",
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
