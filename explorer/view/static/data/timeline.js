// The moments of a recording: every decision, every kernel that the order picks, every kernel that ran.

/**
 * @typedef {{name: string, kind: string, purpose: string, counts: Record<string, number>,
 *   first: number, last: number, start: number, end: number, applied: number, declined: number}} Chapter
 *   moments start + 1 … end belong to a chapter; where start = end it has none and shares moment `start`
 * @typedef {{step: number, chapter: number, phase: string, position: number, decision: number, kernel: number}} Moment
 */

/** The chapters and moments of a recording; a moment's number is the `step` of the view. */
export class Story {
  /** @param {any} recording */
  constructor(recording) {
    this.decisions = recording.decisions;
    /** @type {Chapter[]} */
    this.chapters = [];
    let step = 0;
    for (const stage of recording.stages) {
      const kernels = stage.kind === "order" ? recording.schedule?.kernels : stage.kind === "run" ? recording.run?.steps : null;
      const end = step + stage.last - stage.first + (kernels?.length ?? 0);
      const verdicts = this.decisions.slice(stage.first, stage.last).map((decision) => decision.verdict);
      this.chapters.push({
        ...stage,
        start: step,
        end,
        applied: verdicts.filter((verdict) => verdict === "applied").length,
        declined: verdicts.filter((verdict) => verdict === "declined").length,
      });
      step = end;
    }
    this.end = step;
    this.steps = recording.run?.steps ?? [];
  }

  /** The chapter of a step; `wanted` is kept where it has that step. */
  chapterOf(step, wanted = -1) {
    if (wanted >= 0 && this.#has(wanted, step)) return wanted;
    const found = this.chapters.findIndex((chapter) => step <= chapter.end);
    return found < 0 ? this.chapters.length - 1 : found;
  }

  #has(index, step) {
    const chapter = this.chapters[index];
    return chapter !== undefined && (chapter.start === chapter.end ? step === chapter.start : step > chapter.start && step <= chapter.end);
  }

  /** The first moment of a chapter. */
  entry(index) {
    const chapter = this.chapters[index];
    return Math.min(chapter.start + 1, chapter.end);
  }

  /** The chapter of a name: the current one if it is called so, else the first. */
  named(name, current) {
    return this.chapters[current]?.name === name ? current : this.chapters.findIndex((chapter) => chapter.name === name);
  }

  /** The moment after a decision. */
  afterDecision(decision) {
    const chapter = this.chapters.find(({ first, last }) => first <= decision && decision < last);
    return chapter ? chapter.start + decision - chapter.first + 1 : 0;
  }

  /** The moment at which so many decisions are taken. */
  atPosition(position) {
    return position > 0 ? this.afterDecision(position - 1) : 0;
  }

  /** The moment at which a kernel runs, or, in the order's chapter or where there is no run, is picked; −1 where neither. */
  ofKernel(kernel, phase) {
    const run = this.chapters.find((chapter) => chapter.kind === "run" && chapter.end > chapter.start);
    const order = this.chapters.find((chapter) => chapter.kind === "order" && chapter.end > chapter.start);
    const isPlanned = order && (phase === "order" || !run);
    const chapter = isPlanned ? order : run;
    if (!chapter) return -1;
    const place = isPlanned ? kernel : this.steps.findIndex((step) => step.kernel === kernel);
    return place < 0 ? -1 : chapter.start + chapter.last - chapter.first + place + 1;
  }

  /** @returns {Moment} */
  at(step, wanted = -1) {
    const index = this.chapterOf(step, wanted);
    const chapter = this.chapters[index];
    if (chapter === undefined) return { step: 0, chapter: -1, phase: "record", position: 0, decision: -1, kernel: -1 };
    const into = step - chapter.start;
    const decided = chapter.last - chapter.first;
    const decision = into > 0 && into <= decided ? chapter.first + into - 1 : -1;
    const place = into > decided ? into - decided - 1 : -1;
    const kernel = place < 0 ? -1 : chapter.kind === "run" ? this.steps[place].kernel : place;
    return { step, chapter: index, phase: chapter.kind, position: chapter.first + Math.min(into, decided), decision, kernel };
  }
}
