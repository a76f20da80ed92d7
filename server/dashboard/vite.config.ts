import { defineConfig, type Plugin } from 'vite';

// Few files compress better than many: the page, and the libraries that only some of its views need.
const chunks = (id: string) => (id.includes('dagre') ? 'layout' : /uplot.*js$/i.test(id) ? 'plot' : 'page');

// dagre's file carries a whole library of graph algorithms as objects of getters, which bundlers take for used altogether. Those
// that no other place of the file names as a member are left out: the page knows dagre by its exports alone.
const unusedParts: Plugin = {
  name: 'unused-parts-of-dagre',
  transform(code, id) {
    if (!id.endsWith('dagre.esm.js')) return undefined;
    const isNamed = (getter: string) => new RegExp(`[{,.]${getter.split(':')[0]}\\b(?!:\\(\\)=>)`).test(code);
    const kept = code.replace(/([\w$]+\([\w$]+,\{)((?:\w+:\(\)=>[\w$]+,?)+)(?=\}\))/g, (_, call: string, getters: string) => call + getters.split(',').filter(isNamed).join(','));
    if (kept === code) this.error('dagre is built in another way now: see how its parts that the page does not use can be left out');
    return { code: kept, map: null };
  },
};

// uPlot hands out ways of drawing as members of an object, which bundlers take for used altogether: the page knows steps alone.
const unusedPaths: Plugin = {
  name: 'unused-paths-of-uplot',
  transform(code, id) {
    if (!id.endsWith('uPlot.esm.js')) return undefined;
    const kept = code.replace(/\(paths\.(?:linear|bars|spline)\s+= \w+\);/g, '').replace(/uPlot\.(?:join|fmtDate|tzDate|addGap|clipGaps)\s+= \w+;/g, '');
    if (kept === code) this.error('uPlot is built in another way now: see how what the page does not use of it can be left out');
    return { code: kept, map: null };
  },
};

// vite wraps each import() to fetch styles and further files with it. Styles are one file and nothing is to be fetched before:
// the import is all that is left.
const plainImports: Plugin = {
  name: 'plain-imports',
  enforce: 'pre',
  load: (id) => (id === '\0vite/preload-helper.js' ? 'export const __vitePreload = (load) => load();' : undefined),
};

// Relative addresses, so that the page works below any path of a proxy; nothing inline, for the content security policy.
export default defineConfig({
  base: './',
  plugins: [unusedParts, unusedPaths, plainImports],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    minify: 'terser',
    // What uPlot and dagre name with an underscore is theirs alone: nothing else knows these names.
    terserOptions: {
      ecma: 2020,
      module: true,
      toplevel: true,
      compress: { passes: 4, unsafe_arrows: true, pure_getters: true, hoist_props: true, inline: 1, keep_fargs: false },
      mangle: { properties: { regex: /^_[a-z]{3,}/ } },
      format: { comments: false },
    },
    rollupOptions: { output: { manualChunks: chunks } },
  },
});
