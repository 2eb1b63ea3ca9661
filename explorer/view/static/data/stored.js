// Stored views: the part of a payload that notebooks and pages store (explorer/view/payload/stored.py).

/** Return the payload of a stored view. @param {{gzip: string}} stored */
export async function restored({ gzip }) {
  const bytes = Uint8Array.from(atob(gzip), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
