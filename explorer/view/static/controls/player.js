// Player of the timeline, which shows each step for as long as it takes to read.

/** Duration in ms at speed 1 of a decision, which has to be read, and of a kernel or whole stage, which has only to be seen. */
const [READ, SEEN] = [3000, 800];

/** Timer that calls back after each step's duration while it plays. */
export class Player {
  /** @param {{advance: () => boolean, moment: () => import("../data/timeline.js").Moment, changed: (playing: boolean) => void}} actions `advance` returns whether there are more steps */
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

  /** Change the speed. @param {number} speed 2 is twice as fast as a reader needs */
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
