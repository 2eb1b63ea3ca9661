// Plays the timeline: a step at a time, as many a second as asked for.

/** Calls back at a steady pace while it plays. */
export class Player {
  /** @param {{advance: () => boolean, changed: (playing: boolean) => void}} actions `advance` says whether there is more */
  constructor(actions) {
    this.actions = actions;
    this.speed = 1;
    this.timer = 0;
  }

  /** Start or stop. */
  toggle() {
    this.#set(!this.timer);
  }

  stop() {
    if (this.timer) this.#set(false);
  }

  /** @param {number} speed steps a second */
  retime(speed) {
    this.speed = speed;
    if (this.timer) this.#set(true);
  }

  #set(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.actions.advance() || this.stop(), 1000 / this.speed) : 0;
    this.actions.changed(on);
  }
}
