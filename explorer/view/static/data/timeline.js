// The moments of a recording: each decision, each kernel that the order picks, and each kernel that ran.

/**
 * @typedef {{name: string, kind: string, decides: string, purpose: string, pipeline?: string, size: string, cost: string, result: string, counts: [string, string][],
 *   first: number, last: number, start: number, end: number, kernels: number[], applied: number, declined: number}} Stage
 *   moments start + 1 … end belong to a stage: one for each decision, then one for each of its kernels; if
 *   start = end, it has none. Moment `start` is also the stage as a whole, its result; the stage distinguishes it from the last
 *   moment of the stage before
 * @typedef {{step: number, stage: number, phase: string, whole: boolean, position: number, instant: number, decision: number, kernel: number, hint?: number[], placed?: number}} Moment
 *   hint: while the order is predicted, the nodes shown as ready; placed: while buffers are predicted, the number of kernels whose buffers are shown
 *   whole: all decisions of the stage are applied, and all its kernels are picked or have run
 */

/** Stages and moments of a recording; a moment's number is the `step` of the view. */
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

  /** Return the stage of a step: `wanted` if that stage has the step. */
  stageOf(step, wanted = -1) {
    if (wanted >= 0 && this.has(wanted, step)) return wanted;
    const index = this.stages.findIndex((stage) => step <= stage.end);
    return index < 0 ? this.stages.length - 1 : index;
  }

  /** Whether a stage has a step, or the step is its result, before its first step. */
  has(index, step) {
    const stage = this.stages[index];
    return stage !== undefined && step >= stage.start && step <= stage.end;
  }

  /** Return the step that, together with the stage, means the whole stage. */
  entry(index) {
    return this.stages[index].start;
  }

  /** Return the step of a stage's first decision among `decisions`, −1 if there is none. @param {number} index @param {Iterable<number>} decisions in order */
  firstAbout(index, decisions) {
    const { first, last } = this.stages[index];
    for (const decision of decisions) if (first <= decision && decision < last) return this.afterDecision(decision);
    return -1;
  }

  /** Return the stage with a name: the current one if it has the name, else the first. */
  named(name, current) {
    return this.stages[current]?.name === name ? current : this.stages.findIndex((stage) => stage.name === name);
  }

  /** Return the moment after a decision. */
  afterDecision(decision) {
    const stage = this.stages.find(({ first, last }) => first <= decision && decision < last);
    return stage ? stage.start + decision - stage.first + 1 : 0;
  }

  /** Return the moment after the first `position` decisions. */
  atPosition(position) {
    return position > 0 ? this.afterDecision(position - 1) : 0;
  }

  /** Return the moment at which a kernel runs or, in the order stage or without a run, is picked; −1 if there is neither. */
  ofKernel(kernel, phase) {
    const run = this.stages.find((stage) => stage.kind === "run" && stage.end > stage.start);
    const order = this.stages.find((stage) => stage.kind === "order" && stage.end > stage.start);
    const stage = order && (phase === "order" || !run) ? order : run;
    if (!stage) return -1;
    const place = stage.kernels.indexOf(kernel);
    return place < 0 ? -1 : stage.start + stage.last - stage.first + place + 1;
  }

  /** Return the moment of a stage's last decision, before its first kernel is picked or runs. @param {number} index @returns {Moment} */
  unpicked(index) {
    const { start, first, last } = this.stages[index];
    return { ...this.at(start + last - first, index), whole: false, decision: -1, kernel: -1 };
  }

  /** Return the moment before a stage's first decision. @param {number} index @returns {Moment} */
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
    // As in view/replay/contents.py, the ghosts of the previous stage have disappeared at the start of a stage.
    const instant = 2 * position + (position === stage.first ? 1 : 0);
    return { step, stage: index, phase: stage.kind, whole, position, instant, decision, kernel: stage.kernels[place] ?? -1 };
  }
}
