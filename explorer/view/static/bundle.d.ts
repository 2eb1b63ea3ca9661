/** Forms of the planner's terms, each with its explanation; payload/bundle.py writes it before the modules. */
declare const GLOSSARY: Record<string, string>;
