/** Explanations of the planner's terms, each with the forms of its term; payload/script_bundle.py writes it before the modules. */
declare const GLOSSARY: Record<string, string[]>;
/** px of an edge's label, and between it and its edge, for which layout/edge_labels.py finds the room. */
declare const EDGE_LABEL: { height: number, aside: number };
/** Known to browsers since 2023, and to TypeScript since 5.1. */
declare const DecompressionStream: new (format: "gzip") => { readable: ReadableStream; writable: WritableStream };

/** Of names of ports: px of a character, of the room beside a name, and of a level edge's height at most; px beside a number. */
declare const SPACING: { character: number; besides: number; level: number; number: number };
