import { defineConfig } from 'vite';

// Few files compress better than many: the page, and the libraries that only some of its views need.
const chunks = (id: string) => (id.includes('dagre') ? 'layout' : /uplot.*js$/i.test(id) ? 'plot' : 'page');

// Relative addresses, so that the page works below any path of a proxy; nothing inline, for the content security policy.
export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
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
