// The moments of a recording: every decision, every kernel that the order picks, every kernel that ran.

/**
 * @typedef {{name: string, kind: string, purpose: string, size: string, cost: string, result: string, counts: [string, string][],
 *   first: number, last: number, start: number, end: number, kernels: number[], applied: number, declined: number}} Stage
 *   moments start + 1 … end belong to a stage, one for each decision, then one for each of its kernels; where
 *   start = end it has none. Its result, the stage as a whole, is moment `start`, too, told by the stage from the last
 *   moment of the stage before
 * @typedef {{step: number, stage: number, phase: string, whole: boolean, position: number, instant: number, decision: number, kernel: number, hint?: number[], placed?: number}} Moment
 *   hint: while the order is predicted, the nodes that are shown as ready; placed: while buffers are predicted, the kernels whose buffers are shown
 *   whole: all decisions of the stage are taken, and all its kernels are picked or have run
 */

/** The stages and moments of a recording; a moment's number is the `step` of the view. */
export class Timeline {
  /** @param {any} recording @param {import("./trace.js").Replay} replay */
  constructor(recording, replay) {
    this.decisions = recording.decisions;
    /** @type {Stage[]} */
    this.stages = recording.stages.map((stage, index) => {
      const verdicts = this.decisions.slice(stage.first, stage.last).map((decision) => decision.verdict);
      return {
        ...stage,
        start: replay.ends[index - 1] ?? 0,
        end: replay.ends[index],
        kernels: replay.kernels[index],
        applied: verdicts.filter((verdict) => verdict === "applied").length,
        declined: verdicts.filter((verdict) => verdict === "declined").length,
      };
    });
    this.end = replay.ends.at(-1) ?? 0;
  }

  /** The stage of a step; `wanted` is kept where it has that step. */
  stageOf(step, wanted = -1) {
    if (wanted >= 0 && this.has(wanted, step)) return wanted;
    const index = this.stages.findIndex((stage) => step <= stage.end);
    return index < 0 ? this.stages.length - 1 : index;
  }

  /** Whether a step, or the result before its first one, belongs to a stage. */
  has(index, step) {
    const stage = this.stages[index];
    return stage !== undefined && step >= stage.start && step <= stage.end;
  }

  /** The step that, with the stage, is the stage as a whole. */
  entry(index) {
    return this.stages[index].start;
  }

  /** The step of a stage's first decision about one of some nodes; −1 where it has none. @param {number} index @param {Iterable<number>} decisions in order */
  firstAbout(index, decisions) {
    const { first, last } = this.stages[index];
    for (const decision of decisions) if (first <= decision && decision < last) return this.afterDecision(decision);
    return -1;
  }

  /** The stage of a name: the current one if it is called so, else the first. */
  named(name, current) {
    return this.stages[current]?.name === name ? current : this.stages.findIndex((stage) => stage.name === name);
  }

  /** The moment after a decision. */
  afterDecision(decision) {
    const stage = this.stages.find(({ first, last }) => first <= decision && decision < last);
    return stage ? stage.start + decision - stage.first + 1 : 0;
  }

  /** The moment at which so many decisions are taken. */
  atPosition(position) {
    return position > 0 ? this.afterDecision(position - 1) : 0;
  }

  /** The moment at which a kernel runs, or, in the order's stage or where there is no run, is picked; −1 where neither. */
  ofKernel(kernel, phase) {
    const run = this.stages.find((stage) => stage.kind === "run" && stage.end > stage.start);
    const order = this.stages.find((stage) => stage.kind === "order" && stage.end > stage.start);
    const stage = order && (phase === "order" || !run) ? order : run;
    if (!stage) return -1;
    const place = stage.kernels.indexOf(kernel);
    return place < 0 ? -1 : stage.start + stage.last - stage.first + place + 1;
  }

  /** The moment of a stage's last decision, before its first kernel is picked or runs. @param {number} index @returns {Moment} */
  unpicked(index) {
    const { start, first, last } = this.stages[index];
    return { ...this.at(start + last - first, index), whole: false, decision: -1, kernel: -1 };
  }

  /** The moment before a stage's first decision. @param {number} index @returns {Moment} */
  undecided(index) {
    const { start, first } = this.stages[index];
    return { ...this.at(start, index), whole: false, position: first, instant: 2 * first + 1, decision: -1, kernel: -1 };
  }

  /** @returns {Moment} */
  at(step, wanted = -1) {
    const index = this.stageOf(step, wanted);
    const stage = this.stages[index];
    if (stage === undefined) return { step: 0, stage: -1, phase: "record", whole: true, position: 0, instant: 1, decision: -1, kernel: -1 };
    const decided = stage.last - stage.first;
    const whole = step === stage.start && (index > 0 || stage.start === stage.end);
    const into = whole ? decided : step - stage.start;
    const decision = !whole && into > 0 && into <= decided ? stage.first + into - 1 : -1;
    const place = into > decided ? into - decided - 1 : -1;
    const position = stage.first + Math.min(into, decided);
    // As view/replay/contents.py counts: at a stage's beginning the ghosts of the stage before have gone.
    const instant = 2 * position + (position === stage.first ? 1 : 0);
    return { step, stage: index, phase: stage.kind, whole, position, instant, decision, kernel: stage.kernels[place] ?? -1 };
  }
}
