// Prediction mode: the decisions of a stage are hidden, and the reader predicts them.

import { BufferExercise } from "./buffer_exercise.js";
import { stand } from "./exercise.js";
import { FusionExercise } from "./fusion_exercise.js";
import { GradientExercise } from "./gradient_exercise.js";
import { OrderExercise } from "./order_exercise.js";

/** Exercises of one view, of which at most one is on. */
export class Prediction {
  /** @param {import("../view.js").View} view */
  constructor(view) {
    this.view = view;
    this.order = new OrderExercise(view);
    this.fusion = new FusionExercise(view);
    this.buffers = new BufferExercise(view);
    this.gradients = new GradientExercise(view);
    /** @type {import("./exercise.js").Exercise[]} the possible exercises, first the one that is used for stages without questions */
    this.exercises = [this.order, this.fusion, this.buffers, this.gradients].filter(({ isPossible }) => isPossible);
    /** @type {import("./exercise.js").Exercise | null} the current exercise, which handles clicks and fills the panel */ this.exercise = null;
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

  /** Begin the exercise of the current stage, or the order exercise if the stage has no questions. */
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

  /** Return a moment with the answers hidden; a moment of another stage ends the exercise. @param {import("../data/timeline.js").Moment} moment */
  framed(moment) {
    if (!this.exercise) return moment;
    if (this.exercise.keeps(moment)) return this.exercise.framed(moment);
    this.exercise = null;
    this.view.callbacks.onPredict?.(false);
    return moment;
  }
}
