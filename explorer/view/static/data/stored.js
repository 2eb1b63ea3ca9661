// Stored views: the parts of a payload that notebooks and pages keep (explorer/view/payload/stored.py).

/** The payload of a stored view. @param {{gzip: string}} stored */
export async function restored({ gzip }) {
  const bytes = Uint8Array.from(atob(gzip), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
