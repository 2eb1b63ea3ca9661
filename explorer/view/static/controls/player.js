// Plays the timeline: a step at a time, each as long as it takes to read.

/** ms for which, at speed 1, a decision is shown, which is read, and a kernel or a stage as a whole, which is seen. */
const [READ, SEEN] = [3000, 800];

/** Calls back after each step's time while it plays. */
export class Player {
  /** @param {{advance: () => boolean, moment: () => import("../data/timeline.js").Moment, changed: (playing: boolean) => void}} actions `advance` says whether there is more */
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

  /** @param {number} speed 2 is twice as fast as a reader needs */
  retime(speed) {
    this.speed = speed;
    if (this.timer) this.#set(true);
  }

  #set(on) {
    clearTimeout(this.timer);
    this.timer = 0;
    if (on) this.#wait();
    this.actions.changed(on);
  }

  #wait() {
    const pause = this.actions.moment().decision >= 0 ? READ : SEEN;
    this.timer = setTimeout(() => {
      if (this.actions.advance()) this.#wait();
      else this.stop();
    }, pause / this.speed);
  }
}
