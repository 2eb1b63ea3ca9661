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
    /** @type {import("./exercise.js").Exercise | null} the one that is on, which answers for the canvas and the panel */ this.exercise = null;
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
}
