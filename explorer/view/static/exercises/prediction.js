// Predicting: the decisions of a stage are hidden, and a reader predicts them.

import { BufferExercise } from "./buffer_exercise.js";
import { stand } from "./exercise.js";
import { FusionExercise } from "./fusion_exercise.js";
import { GradientExercise } from "./gradient_exercise.js";
import { OrderExercise } from "./order_exercise.js";

/** The exercises of one view, of which one may be on. */
export class Prediction {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.order = new OrderExercise(view);
    this.fusion = new FusionExercise(view);
    this.buffers = new BufferExercise(view);
    this.gradients = new GradientExercise(view);
    /** @type {import("./exercise.js").Exercise[]} the possible ones, that for any other stage first */
    this.exercises = [this.order, this.fusion, this.buffers, this.gradients].filter(({ isPossible }) => isPossible);
    /** @type {import("./exercise.js").Exercise | null} the one that is on */ this.exercise = null;
  }

  get isOn() {
    return this.exercise !== null;
  }

  get isPossible() {
    return this.exercises.length > 0;
  }

  toggle() {
    if (this.isOn) this.end();
    else this.begin();
  }

  /** Hide the decisions of the present stage and ask for them; at one without questions, ask for the order. */
  begin() {
    const { view, exercises } = this;
    if (!this.isPossible || this.isOn) return;
    const exercise = exercises.find(({ stage }) => stage === view.now.stage) ?? exercises[0];
    exercise.clear();
    view.player.stop();
    view.selection.select(-1);
    this.exercise = exercise;
    stand(view, exercise.start());
    exercise.seek();
    view.callbacks.onPredict?.(true);
  }

  /** Show the decisions again. */
  end() {
    if (!this.isOn) return;
    const { view } = this;
    this.exercise = null;
    stand(view, view.timeline.at(view.now.step, view.now.stage));
    view.callbacks.onPredict?.(false);
  }

  /** A moment as it is shown while something is hidden; one of another stage ends it. @param {import("../data/timeline.js").Moment} moment */
  framed(moment) {
    if (!this.exercise) return moment;
    if (this.exercise.keeps(moment)) return this.exercise.framed(moment);
    this.exercise = null;
    this.view.callbacks.onPredict?.(false);
    return moment;
  }

  /** Bring the open question into sight. */
  seek() {
    this.exercise?.seek();
  }

  hint() {
    this.exercise?.hint();
  }

  /** Go to another question; false where a step goes to another moment. @param {number} by */
  step(by) {
    return this.exercise?.step(by) ?? false;
  }

  /** Answer yes or no; false where that is no answer. @param {boolean} isYes */
  judge(isYes) {
    return this.exercise?.judge(isYes) ?? false;
  }

  /** The slots and edges of the open question. */
  marked() {
    return this.exercise?.marked();
  }

  /** Take an item that was clicked on the canvas. @param {string} key "n7", "b2" or "" @param {string} [edge] */
  take(key, edge = "") {
    this.exercise?.take(key, edge);
  }

  /** The line over the canvas, in the place of a moment's sentence: it is read out. */
  saying() {
    return this.exercise.saying();
  }

  /** Content of the panel. */
  content() {
    return this.exercise.content();
  }
}
