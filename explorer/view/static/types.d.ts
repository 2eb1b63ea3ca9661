// Types of the unpacked payload, written by assets/front_end_types.py from the rows of explorer/record and
// explorer/view/payload/shapes.py.

/** Paragraph, list item or code of a documentation. */
export interface Block {
  kind: "text" | "item" | "code";
  depth: number;
  mark: string;
  parts: (string | Code | Strong | Link)[];
}

/** Graph of nodes: row 0 is the top graph, and each other row is the body of a function. */
export interface Body {
  name: string;
  inputs: number[];
  outputs: number[];
}

/** Container of slots and boxes. An edge consists of its items, route, ports and port names. */
export interface BoxTable {
  kind: string;
  label: string;
  title: string;
  text: string[];
  type: string;
  layer: number;
  family: string;
  operator: number;
  batches: number[];
  count: number;
  parent: number;
  open: boolean;
  closed: [number, number];
  size: [number, number];
  placed: boolean;
  ports: [number[], number[]];
  items: ItemTable[];
  edges: any[];
  labels: [number, number, number, number, number, number, number, number][];
  recorded: PositionsTable | null;
  crossings: [number, number, number][];
}

/** Part of a sentence that is written as code. */
export interface Code {
  code: string;
}

/** Code of a kernel. */
export interface CodeTable {
  language: string;
  lines: string[];
  nodes: [number, number][];
}

/** Recorded nodes that together compute a known function, and the name of the function: "GELU", "softmax". */
export interface Composition {
  name: string;
  node: number;
  operand: number;
  members: number[];
}

/** Decision; a fact is a text, a node, or a list of these. */
export interface DecisionTable {
  stage: number;
  rule: string;
  verdict: "applied" | "declined";
  code: string;
  location: string;
  reason: number;
  facts: Record<string, string | number | (string | number)[]>;
  subjects: number[];
  produced: number[];
  before: number[];
  cost: number;
}

/** Input, output, attribute or type constraint of an operator type, with its documentation. */
export interface DocumentedTable {
  name: string;
  type: string;
  note: string;
  default: string;
  meaning: Block[];
}

/** Meaning of a reason. */
export interface ExplanationTable {
  meaning: string;
  change: string;
  anchor: string;
  numerics: string;
}

/** Operator of a model file: its attributes and weights, with the names used in the file. */
export interface FileOperator {
  scope: number;
  attributes: [string, string][];
  weights: [string, string][];
  doc: string;
  inputs: string[];
  outputs: string[];
  parameters: [string, number][];
  results: [string, number][];
  documentation: number;
  implied: string[];
  stated: [string, string][];
}

/** A forward node, the nodes that compute its gradient, and the forward values that are saved for these nodes. */
export interface Gradient {
  node: number;
  backward: number[];
  saved: number[];
}

/** Group of nodes, with titles and their widths in px, the longest first. */
export interface GroupTable {
  decision: number;
  kind: string;
  members: number[];
  titles: [string, number][];
}

/** Input or output of a model. Each member of a sequence has its own row, named ``x[0]``, ``x[1]``, … */
export interface InterfaceRow {
  direction: "input" | "output";
  name: string;
  node: number;
}

/** Slot or box inside a box, without coordinates if the box is not laid out yet. */
export interface ItemTable {
  slot?: number;
  box?: number;
  at?: [number, number, number, number];
  rank?: number;
}

/** Kernel in the schedule: the nodes that it computes (the last node is its result) and its memory. */
export interface Kernel {
  nodes: number[];
  level: number | null;
  chain: number | null;
  flops: number | null;
  bytes: number;
  workspace: number | null;
  estimate: number | null;
  buffer: number | null;
  in_place: boolean;
  ready_candidates: number[];
  ready_count: number;
  pick_reason: string;
  frees: number[];
  live: number | null;
  waiting: number[];
  waiting_count: number;
}

/** Layer, with its ports and policies as text. */
export interface LayerTable {
  name: string;
  type: string;
  ports: string;
  use: string;
  order: string;
  clauses: string[];
  policies: [string, string][];
  feedback: [boolean, string][];
  scopes: number[];
}

/** Boxes, slots and their texts (labels.Text); "turned" is the layout in the other direction. */
export interface LayoutTables {
  direction: "down" | "right";
  turned?: any[];
  page?: PageTable;
  boxes: BoxTable[];
  slots: SlotTable[];
  texts: [string, string, string, string, string, string][];
  bodies: number[];
}

/** Element and byte counts of the values that exist before a run. */
export interface LeafTable {
  parameters: Record<number, number>;
  weights: Record<number, number>;
  others: Record<number, number>;
}

/** Part of a sentence that links to a page. */
export interface Link {
  link: string;
  url: string;
}

/** Cell or file: the lines that recorded nodes, and the lines around them. */
export interface ListingTable {
  where: string;
  unit: string;
  numbers: number[];
  sources: number[][];
  lines: string[];
}

/** Heat metric. */
export interface MetricTable {
  name: string;
  unit: string;
  row: string;
  text: string;
  values: number[] | null;
  per: number[] | null;
  boxes: string;
}

/** Table of nodes, as columns of equal length. */
export interface Nodes {
  operation: number[];
  kind: ("leaf" | "constant" | "input" | "operation" | "call" | "item")[];
  label: string[];
  type: number[];
  operands: number[][];
  scope: number[];
  source: number[];
  flops: (number | null)[];
  bytes: number[];
  born: number[];
  gone: number[];
  body: number[];
  callee: number[];
  attributes: Record<number, Record<string, string>>;
}

/** Operator type of a model file, and its documentation (model/marked_text.py). */
export interface OperatorTypeTable {
  name: string;
  origin: string;
  summary: string;
  url: string;
  description: Block[];
  inputs: DocumentedTable[];
  outputs: DocumentedTable[];
  attributes: DocumentedTable[];
  constraints: DocumentedTable[];
}

/** Options of a view. */
export interface OptionTable {
  theme: "auto" | "light" | "dark";
  position: number;
  height: number;
  heat: string;
}

/** Boxes of a page that are also open at first if its canvas is large. */
export interface PageTable {
  room: [number, number];
  boxes: number[];
}

/** Payload, unpacked. */
export interface PayloadTables {
  recording: RecordingTables;
  layout: LayoutTables;
  replay: ReplayTables;
  heat: MetricTable[];
  options: OptionTable;
}

/** Location and form of a kernel, as a compiler or runtime reports them; "" for what it does not report. */
export interface Placement {
  name: string;
  computed_by: string;
  provider: string;
  device: string;
}

/** Positions inside an open box whose child boxes are closed, with the same items as in the box. */
export interface PositionsTable {
  size: [number, number];
  ports: [number[], number[]];
  items: ItemTable[];
  edges: any[];
  labels: [number, number, number, number, number, number, number, number][];
}

/** Template of a sentence, with texts, code and labels of facts. */
export interface ReasonTable {
  sentence: (string | Code | [string] | [string, string])[];
  explanation: number;
  note?: string;
}

/** Tables of a recording. */
export interface RecordingTables {
  title: string;
  options: Record<string, any>;
  operations: string[];
  families: Record<string, string>;
  types: TypeTable[];
  declared?: Record<number, string>;
  scopes: Scope[];
  sources: SourceTable[];
  listings: ListingTable[];
  bodies: Body[];
  nodes: Nodes;
  stages: StageTable[];
  reasons: ReasonTable[];
  explanations: ExplanationTable[];
  decisions: DecisionTable[];
  substitutions: [number, number, number][];
  declined_edges: [number, number][];
  declined_readers: [number, number, number][];
  accounts: Record<string, string>;
  limits: string;
  marks: Record<number, Record<number, string>>;
  groups: GroupTable[];
  gradients?: Gradient[];
  layers: LayerTable[];
  operators?: FileOperator[];
  operator_types?: OperatorTypeTable[];
  interface?: InterfaceRow[];
  metadata?: [string, string[]][];
  compositions?: Composition[];
  authors?: Record<number, string>;
  placements?: Record<number, Placement>;
  once?: number[];
  codes?: Record<number, CodeTable>;
  variables?: Record<number, string>;
  leaf_values?: Record<number, Summary>;
  shared_leaves?: Record<number, number>;
  leaves: LeafTable;
  first_nan: number;
  schedule: Schedule | null;
  run: Run | null;
}

/** Results of the replay rules. */
export interface ReplayTables {
  ends: number[];
  change: number;
  kernels: number[][];
  merges: number[];
  outlined: number[];
  opens: [number, number, number][];
  rows: [number, number, string][];
}

/** Measurements of a run. */
export interface Run {
  executor: string;
  steps: Step[];
  micros: number;
  values: Record<number, Summary>;
  warm: boolean;
  watched: boolean;
}

/** Planned run: kernels in order, the size of each buffer in bytes, and the required memory in bytes. */
export interface Schedule {
  kernels: Kernel[];
  buffers: number[];
  peak: number | null;
  peak_without_reuse: number | null;
}

/** Box around nodes in the user's program; ``parent`` is the scope row of the surrounding box. */
export interface Scope {
  name: string;
  kind: string;
  parent: number;
  type: string;
}

/** Position shared by nodes that replace each other. */
export interface SlotTable {
  nodes: number[];
  text: number[];
  sizes: [number, number][];
}

/** Line of a cell or a file. */
export interface SourceTable {
  place: string;
  text: string;
}

/** Stage, with its counts as text. */
export interface StageTable {
  name: string;
  kind: "record" | "rewrite" | "order" | "format" | "memory" | "run";
  decides: "" | "kernels" | "batches" | "merging";
  first: number;
  last: number;
  purpose: string;
  pipeline?: string;
  size: string;
  cost: string;
  result: string;
  counts: [string, string][];
}

/** Measured run of one kernel, in µs from the start of the run. */
export interface Step {
  kernel: number;
  start: number;
  micros: number;
  live: number | null;
  thread: number;
}

/** Part of a sentence that is emphasized. */
export interface Strong {
  strong: string;
}

/** Summary of a value: statistics of its finite elements, a 32-bin histogram, and a thumbnail (rows of 0…255). */
export interface Summary {
  shape: number[];
  dtype: string;
  min: number | null;
  max: number | null;
  mean: number | null;
  std: number | null;
  nan: number;
  inf: number;
  histogram: number[];
  thumbnail: number[][];
  elements: string;
}

/** Type of a value, whose text is the shape, with names of dimensions, followed by ``text``. */
export interface TypeTable {
  shape: number[];
  named?: string;
  text: string;
  dtype: string;
}
