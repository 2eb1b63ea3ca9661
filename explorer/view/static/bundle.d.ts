/** Explanation of each planner term → forms of the term; payload/script_bundle.py writes it before the modules. */
declare const GLOSSARY: Record<string, string[]>;
/** Height of an edge label and its distance from the edge in px; layout/edge_labels.py reserves the space. */
declare const EDGE_LABEL: { height: number, aside: number };
/** Supported by browsers since 2023, and by TypeScript since 5.1. */
declare const DecompressionStream: new (format: "gzip") => { readable: ReadableStream; writable: WritableStream };

/** Port names: px per character, around a name, and the maximum height of a level edge; px around a number; difference in height of the ends below which an edge is short. */
declare const SPACING: { character: number; besides: number; level: number; number: number; short: number };
/** Families of operations → their meanings, for the legend. */
declare const FAMILIES: Record<string, string>;
